#ifndef STOWAGE_TESTS_IR_ERROR_ROWS_H_
#define STOWAGE_TESTS_IR_ERROR_ROWS_H_

// Mistakes and what is said of them, word for word.
//
//   CheckRows({{[](GraphBuilder& g) { Add(F32(g, "x", {2}), F32(g, "y", {3})); },
//               "[add] f32(2) and f32(3) cannot be broadcast"}});

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"

namespace stowage {

struct ErrorRow {
  void (*build)(GraphBuilder& g);
  const char* message;
};

inline constexpr int64_t kHuge = int64_t{1} << 40;
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline void CheckRows(const std::vector<ErrorRow>& rows) {
  for (const ErrorRow& row : rows) {
    INFO(row.message);
    GraphBuilder g("errors");
    row.build(g);
    const Result<Graph> graph = g.Finish();
    REQUIRE_FALSE(graph.ok());
    CHECK(graph.error().code == ErrorCode::kInvalidArgument);
    const std::string& message = graph.error().message;
    // The place in the source follows; another test looks at it.
    CHECK(message.substr(0, message.find(" (at ")) == row.message);
  }
}

}  // namespace stowage

#endif  // STOWAGE_TESTS_IR_ERROR_ROWS_H_
