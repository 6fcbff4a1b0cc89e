/* SPDX-License-Identifier: Apache-2.0 */
/* What PyTorch's pluggable allocator can't be given from C: out of memory as the exception that Python sees as torch.OutOfMemoryError, and
 * hooks that take a std::function. PyTorch's headers are not needed: what the exception is made of is looked up in the libc10 that the
 * process has loaded. Where that has other names, std::bad_alloc is thrown, which Python sees as RuntimeError or MemoryError. */
#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <utility>

#include "weir/faces.h"

namespace {

class out_of_memory : public std::bad_alloc {
  public:
    explicit out_of_memory(std::string said) : text(std::move(said)) {}
    const char *what() const noexcept override { return text.c_str(); }

  private:
    std::string text;
};

/* ---- c10::OutOfMemoryError -------------------------------------------------------------------------------------- */

#define STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
constexpr char TYPE[] = "_ZTIN3c1016OutOfMemoryErrorE", TABLE[] = "_ZTVN3c1016OutOfMemoryErrorE";
constexpr char OWN_CONSTRUCTOR[] = "_ZN3c1016OutOfMemoryErrorC1ENS_14SourceLocationE" STRING;
constexpr char BASE_CONSTRUCTOR[] = "_ZN3c105ErrorC1ENS_14SourceLocationE" STRING;
constexpr size_t ROOM = 1024; /* several times what the object takes */

struct location { /* c10::SourceLocation */
    const char *function, *file;
    uint32_t line;
};

/* Older versions have the base's constructor alone; the object differs from the base's in its table of functions. */
struct torch_error {
    std::type_info *type = nullptr;
    void (*construct)(void *self, location where, std::string text) = nullptr;
    char *table = nullptr;

    torch_error() {
        void *library = dlopen("libc10_cuda.so", RTLD_NOLOAD | RTLD_LAZY); /* and what it needs */
        if (library == nullptr) return;
        type = static_cast<std::type_info *>(dlsym(library, TYPE));
        void *constructor = dlsym(library, OWN_CONSTRUCTOR);
        if (constructor == nullptr && (table = static_cast<char *>(dlsym(library, TABLE))) != nullptr)
            constructor = dlsym(library, BASE_CONSTRUCTOR);
        std::memcpy(&construct, &constructor, sizeof construct);
    }
};

/* Its first base is std::exception, whose destructor is virtual. */
void destroy(void *error) { static_cast<std::exception *>(error)->~exception(); }

[[noreturn]] void throw_out_of_memory(const std::string &text) {
    static const torch_error torch;
    if (torch.type == nullptr || torch.construct == nullptr) throw out_of_memory(text);
    void *error = abi::__cxa_allocate_exception(ROOM);
    try {
        torch.construct(error, {"weir_torch_alloc", "weir", 0}, text);
    } catch (...) {
        abi::__cxa_free_exception(error);
        throw;
    }
    if (torch.table != nullptr) *static_cast<char **>(error) = torch.table + 2 * sizeof(void *);
    abi::__cxa_throw(error, torch.type, destroy);
}

std::string report(int device) {
    weir_pool *pool = nullptr;
    if (weir_process_pool(device, &pool) != WEIR_OK) return "";
    std::string text(weir_pool_report(pool, nullptr, 0) + 256, '\0'); /* it may grow a little meanwhile */
    const size_t length = weir_pool_report(pool, text.data(), text.size());
    text.resize(length < text.size() ? length : text.size() - 1);
    return "\n" + text;
}

[[noreturn]] void refuse(int device) {
    const weir_error error = *weir_last_error();
    const std::string text = std::string("weir: ") + error.message;
    if (error.status != WEIR_OUT_OF_MEMORY) throw std::runtime_error(text);
    throw_out_of_memory(text + report(device));
}

/* ---- filters ---------------------------------------------------------------------------------------------------- */

using filter_function = std::function<bool(weir_stream)>;
using pool_id = std::pair<uint64_t, uint64_t>;

/* It is called by C, through which nothing may be thrown. */
bool call(void *self, weir_stream stream) {
    try {
        return (*static_cast<filter_function *>(self))(stream);
    } catch (...) {
        return false;
    }
}

void drop(void *self) { delete static_cast<filter_function *>(self); }

} // namespace

extern "C" {

WEIR_API void *weir_torch_alloc_or_throw(ssize_t bytes, int device, weir_stream stream) {
    void *block = weir_torch_alloc(bytes, device, stream);
    if (block == nullptr) refuse(device);
    return block;
}

WEIR_API void weir_torch_begin_allocate_to_pool(int device, pool_id id, filter_function filter) {
    weir_torch_begin_pool(device, {id.first, id.second}, call, drop, new filter_function(std::move(filter)));
}

WEIR_API void weir_torch_end_allocate_to_pool(int device, pool_id id) {
    weir_torch_end_pool(device, {id.first, id.second});
}

WEIR_API void weir_torch_release(int device, pool_id id) { weir_torch_release_pool(device, {id.first, id.second}); }
}
