#ifndef STOWAGE_REPORT_REPORT_H_
#define STOWAGE_REPORT_REPORT_H_

// The package's umbrella header: the figures of a plan as numbers, and printed as a
// table, a character map, JSON, an image, a page or a trace; comparison of two plans; the
// events of a step, one a line; its memory traffic; plan files.

#include "report/html.h"         // IWYU pragma: export
#include "report/memory_lock.h"  // IWYU pragma: export
#include "report/numbers.h"      // IWYU pragma: export
#include "report/plan_json.h"    // IWYU pragma: export
#include "report/svg.h"          // IWYU pragma: export
#include "report/text.h"         // IWYU pragma: export
#include "report/traffic.h"      // IWYU pragma: export

#endif  // STOWAGE_REPORT_REPORT_H_
