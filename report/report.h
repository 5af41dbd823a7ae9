#ifndef STOWAGE_REPORT_REPORT_H_
#define STOWAGE_REPORT_REPORT_H_

// The umbrella header of the package. It provides the figures of a plan as numbers, and
// writes them as a table, a character map, JSON, an image, a page or a trace. It also
// compares two plans, prints the events of a step, one per line, counts its memory traffic,
// and reads and writes plan files.

#include "report/html.h"         // IWYU pragma: export
#include "report/memory_lock.h"  // IWYU pragma: export
#include "report/numbers.h"      // IWYU pragma: export
#include "report/plan_json.h"    // IWYU pragma: export
#include "report/svg.h"          // IWYU pragma: export
#include "report/text.h"         // IWYU pragma: export
#include "report/traffic.h"      // IWYU pragma: export

#endif  // STOWAGE_REPORT_REPORT_H_
