#ifndef STOWAGE_REPORT_REPORT_H_
#define STOWAGE_REPORT_REPORT_H_

// The umbrella header of the package. The package computes the figures of a plan, and writes them
// as a table, a character map, JSON, an image, an HTML page or a trace. It also compares two plans,
// prints the events of a step, counts the memory traffic of a step, and reads and writes plan files
// and memory locks. report/tensorboard.h is not included.

#include "report/html.h"         // IWYU pragma: export
#include "report/memory_lock.h"  // IWYU pragma: export
#include "report/numbers.h"      // IWYU pragma: export
#include "report/plan_json.h"    // IWYU pragma: export
#include "report/svg.h"          // IWYU pragma: export
#include "report/text.h"         // IWYU pragma: export
#include "report/traffic.h"      // IWYU pragma: export

#endif  // STOWAGE_REPORT_REPORT_H_
