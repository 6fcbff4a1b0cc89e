/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/faces/c10.h"

#include <utility>

namespace c10 {


Error::Error(SourceLocation where, std::string said)
    : text(std::move(said)), more(std::string(where.function) + " in " + where.file) {}
const char *Error::what() const noexcept { return text.c_str(); }
const char *Error::what_without_backtrace() const noexcept { return text.c_str(); }

#if defined(OWN_CONSTRUCTOR)
OutOfMemoryError::OutOfMemoryError(SourceLocation where, std::string said) : Error(where, std::move(said)) {}
#endif

/* As PyTorch's own allocator does, so that the type is there. */
C10_API void refuse() { throw OutOfMemoryError({"", "", 0}, "PyTorch's own"); }

} // namespace c10
