#ifndef STOWAGE_REPORT_REPORT_JSON_H_
#define STOWAGE_REPORT_REPORT_JSON_H_

// The report as JSON: exact bytes, under the names that `stowage plan --json` prints.
// Times are positions in the schedule.
//
//   {"graph": "mlp", "params": 2410, "arena_bytes": 71680, ...,
//    "peak_live": [{"name": "h1", "bytes": 4096, "region": "activations"}],
//    ...}

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "report/numbers.h"
#include "report/traffic.h"

namespace stowage {

/// The figures as one object, for callers that add to it; `peak_live` holds the
/// `peak_limit` largest.
nlohmann::ordered_json FiguresJson(const Report& report, size_t peak_limit);

/// The figures with everything that is live at the peak, and every buffer's name, region,
/// address, bytes and lifetime under `timeline`. Ends with a newline.
std::string ToJson(const Report& report);

/// The memory traffic of a step: `total_bytes`, read and written; `total`,
/// `without_products_and_attention`, and under `families` each family by its name, most
/// bytes first; with the roofline's seconds and `device`, if given.
nlohmann::ordered_json TrafficJson(const Traffic& traffic);

}  // namespace stowage

#endif  // STOWAGE_REPORT_REPORT_JSON_H_
