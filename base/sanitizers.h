#ifndef STOWAGE_BASE_SANITIZERS_H_
#define STOWAGE_BASE_SANITIZERS_H_

// Defines macros for the sanitizers with which a file is compiled, for g++ and clang. Each macro
// is 0 or 1.
//
//   #if STOWAGE_ASAN
//   #include <sanitizer/asan_interface.h>
//   #endif

#if defined(__has_feature)
#define STOWAGE_HAS_FEATURE(feature) __has_feature(feature)
#else
#define STOWAGE_HAS_FEATURE(feature) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || STOWAGE_HAS_FEATURE(address_sanitizer)
#define STOWAGE_ASAN 1
#else
#define STOWAGE_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || STOWAGE_HAS_FEATURE(thread_sanitizer)
#define STOWAGE_TSAN 1
#else
#define STOWAGE_TSAN 0
#endif

// 1 if a sanitizer replaces malloc.
#if STOWAGE_ASAN || STOWAGE_TSAN || STOWAGE_HAS_FEATURE(memory_sanitizer)
#define STOWAGE_SANITIZER_HAS_MALLOC 1
#else
#define STOWAGE_SANITIZER_HAS_MALLOC 0
#endif

#undef STOWAGE_HAS_FEATURE

#endif  // STOWAGE_BASE_SANITIZERS_H_
