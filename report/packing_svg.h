#ifndef STOWAGE_REPORT_PACKING_SVG_H_
#define STOWAGE_REPORT_PACKING_SVG_H_

// A packing as an image, like the images of plans in report/svg.h: the x axis
// is time, the y axis the address, with one rectangle for each buffer; hovering
// shows id, bytes and lifetime. Below it, on the same time axis, are the live
// bytes and the height: where they touch, no packing could be lower. The file
// is self-contained.
//
//   Write("packing.svg", ToSvg(problem, packing));

#include <string>

#include "planner/packing/packer.h"
#include "planner/packing/problem.h"

namespace stowage {

/// `packing` must have an offset for each buffer of `problem`. Buffers of size
/// zero are not drawn; fixed ones are grey. O(n log n); about 250 bytes a
/// buffer.
std::string ToSvg(const packing::Problem& problem,
                  const packing::Packing& packing);

}  // namespace stowage

#endif  // STOWAGE_REPORT_PACKING_SVG_H_
