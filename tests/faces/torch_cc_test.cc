/* SPDX-License-Identifier: Apache-2.0 */
/* What libweir-torch.so adds for PyTorch: no memory is an exception with weir's report, PyTorch's own where that is loaded
 * (WITH_C10); and filters come as std::function. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

#include "weir/faces.h"
#if defined(WITH_C10)
#include "tests/faces/c10.h"
using refusal = c10::OutOfMemoryError;
#else
using refusal = std::bad_alloc;
#endif

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                       \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

using pool_id = std::pair<uint64_t, uint64_t>;
extern "C" {
void *weir_torch_alloc_or_throw(ssize_t bytes, int device, weir_stream stream);
void weir_torch_begin_allocate_to_pool(int device, pool_id id, std::function<bool(weir_stream)> filter);
void weir_torch_end_allocate_to_pool(int device, pool_id id);
void weir_torch_release(int device, pool_id id);
}

static void memory_is_given() {
    void *block = weir_torch_alloc_or_throw(1000, 0, nullptr), *none = weir_torch_alloc_or_throw(0, 0, nullptr);
    CHECK(block != nullptr && none != nullptr);
    weir_torch_free(block, 1000, 0, nullptr);
    weir_torch_free(none, 0, 0, nullptr);
}

static void out_of_memory_is_thrown_with_the_report() {
    for (int i = 0; i < 3; i++) {
        bool caught = false;
        try {
            weir_torch_alloc_or_throw(ssize_t(1) << 50, 0, nullptr);
        } catch (const refusal &error) {
            caught = true;
            CHECK(std::strstr(error.what(), "weir: 1125899906842624 bytes") == error.what());
            CHECK(std::strstr(error.what(), "\n") != nullptr && std::strstr(error.what(), "live") != nullptr);
#if defined(WITH_C10)
            CHECK(std::strcmp(error.what_without_backtrace(), "its own table") == 0);
#endif
        }
        CHECK(caught);
    }
}

static void another_failure_is_no_lack_of_memory() {
    bool caught = false;
    try {
        weir_torch_alloc_or_throw(1, 63, nullptr);
    } catch (const std::runtime_error &error) {
        caught = std::strstr(error.what(), "63") != nullptr;
    }
    CHECK(caught);
}

static void filters_are_asked_and_given_up() {
    auto asked = std::make_shared<int>(0);
    weir_stream stream = nullptr;
    struct weir_device *device = nullptr;
    CHECK(weir_device_open(nullptr, &device) == WEIR_OK);
    CHECK(weir_stream_create(device, &stream) == WEIR_OK);
    weir_torch_begin_allocate_to_pool(0, {1, 2}, [asked, stream](weir_stream named) {
        ++*asked;
        if (*asked > 1) throw std::runtime_error("a filter that fails is none");
        return named == stream;
    });
    CHECK(asked.use_count() == 2);
    for (int i = 0; i < 2; i++) weir_torch_free(weir_torch_alloc_or_throw(1000, 0, stream), 1000, 0, stream);
    CHECK(*asked == 2);
    weir_torch_end_allocate_to_pool(0, {1, 2});
    CHECK(asked.use_count() == 1);
    weir_torch_release(0, {1, 2});
    CHECK(weir_stream_destroy(device, stream) == WEIR_OK);
    weir_device_close(device);
}

int main() {
    memory_is_given();
    out_of_memory_is_thrown_with_the_report();
    another_failure_is_no_lack_of_memory();
    filters_are_asked_and_given_up();
    return 0;
}
