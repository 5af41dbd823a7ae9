#ifndef STOWAGE_REPORT_TEXT_H_
#define STOWAGE_REPORT_TEXT_H_

// The report for people: a table of fixed width with each figure's formula
// beside it, and the map of the arena.
//
//   std::cout << ToText(MakeReport(graph, plan));

#include <string>

#include "report/numbers.h"

namespace stowage {

/// The table of regions and figures, what lives at the peak (its ten largest
/// buffers), and MemoryMap.
std::string ToText(const Report& report);

/// The regions and figures alone.
std::string SummaryTable(const Report& report);

/// Everything that lives at the peak, largest first, at most `limit` rows.
std::string PeakTable(const Report& report, size_t limit);

}  // namespace stowage

#endif  // STOWAGE_REPORT_TEXT_H_
