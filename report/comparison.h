#ifndef STOWAGE_REPORT_COMPARISON_H_
#define STOWAGE_REPORT_COMPARISON_H_

// Two plans beside each other: their figures, and by how much the second differs.
//
//   std::cout << ComparisonText({"kept", &kept}, {"recomputed", &recomputed});

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "report/numbers.h"

namespace stowage {

struct NamedReport {
  std::string name;
  const Report* report;
};

/// A table of at most 79 columns; longer names are cut.
std::string ComparisonText(const NamedReport& a, const NamedReport& b);

/// {"plans": [{"name": ..., figures}, ...], "difference": {"arena_bytes": ...}},
/// where a difference is the second plan's figure less the first's.
nlohmann::ordered_json ComparisonJson(const NamedReport& a,
                                      const NamedReport& b);

}  // namespace stowage

#endif  // STOWAGE_REPORT_COMPARISON_H_
