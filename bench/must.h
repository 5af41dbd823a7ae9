#ifndef STOWAGE_BENCH_MUST_H_
#define STOWAGE_BENCH_MUST_H_

// Must returns the value of a Result. If the Result is an error, it prints the error to stderr and
// exits with code 2.
//
//   const Graph graph = Must(BuildGpt(config, purpose, options));

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/result.h"

namespace stowage::bench {

inline void Must(const Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(2);
}

template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) Must(Status(result.error()));
  return std::move(result).value();
}

}  // namespace stowage::bench

#endif  // STOWAGE_BENCH_MUST_H_
