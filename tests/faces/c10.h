/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for PyTorch's libc10_cuda.so, as far as its exception for out of memory goes. OWN_CONSTRUCTOR: as newer versions have it; else
 * as older ones, which have the base's alone. */
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#define C10_API __attribute__((visibility("default")))

namespace c10 {

struct C10_API SourceLocation {
    const char *function, *file;
    uint32_t line;
};

class C10_API Error : public std::exception {
  public:
    Error(SourceLocation where, std::string said);
    const char *what() const noexcept override;
    virtual const char *what_without_backtrace() const noexcept;

  private:
    std::string text, more;
};

class C10_API OutOfMemoryError : public Error {
  public:
#if defined(OWN_CONSTRUCTOR)
    OutOfMemoryError(SourceLocation where, std::string said);
#else
    using Error::Error;
#endif
    const char *what_without_backtrace() const noexcept override { return "its own table"; }
};


} // namespace c10
