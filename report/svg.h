#ifndef STOWAGE_REPORT_SVG_H_
#define STOWAGE_REPORT_SVG_H_

// The arena as a picture: time to the right, address upwards, one rectangle for
// each buffer, its colour the region's; hovering shows name, bytes and
// lifetime. Below it, on the same time axis, live bytes beside the arena's
// height. One file that needs nothing else: no script, no font, no link.
//
//   Write("plan.svg", ToSvg(report));

#include <string>

#include "report/numbers.h"

namespace stowage {

/// Linear in buffers and nodes; a plan of 2,000 buffers gives about 0.5 MB.
std::string ToSvg(const Report& report);

}  // namespace stowage

#endif  // STOWAGE_REPORT_SVG_H_
