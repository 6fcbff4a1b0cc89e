/* SPDX-License-Identifier: Apache-2.0 */
/* SANITIZED: 1 in builds with the address or the thread sanitizer, where tests take fewer turns; else 0. */
#ifndef WEIR_TESTS_SANITIZED_H
#define WEIR_TESTS_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#endif
