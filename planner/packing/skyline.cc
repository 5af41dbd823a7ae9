#include "planner/packing/skyline.h"

#include <algorithm>
#include <cstddef>

namespace stowage::packing {

Skyline::Skyline(int32_t columns) {
  while (leaves_ < static_cast<uint32_t>(columns)) leaves_ *= 2;
  nodes_.resize(2 * static_cast<size_t>(leaves_));
}

Bytes Skyline::Top(ColumnRange range) const {
  const uint32_t begin = static_cast<uint32_t>(range.begin) + leaves_;
  const uint32_t end = static_cast<uint32_t>(range.end) + leaves_;
  Bytes top = 0;
  for (uint32_t left = begin, right = end; left < right;
       left /= 2, right /= 2) {
    if (left & 1) top = std::max(top, nodes_[left++].highest);
    if (right & 1) top = std::max(top, nodes_[--right].highest);
  }
  // Above both ends of the range; what is between lies under one of these.
  for (uint32_t node = begin / 2; node > 0; node /= 2) {
    top = std::max(top, nodes_[node].raised);
  }
  for (uint32_t node = (end - 1) / 2; node > 0; node /= 2) {
    top = std::max(top, nodes_[node].raised);
  }
  return top;
}

void Skyline::Raise(ColumnRange range, Bytes top) {
  const uint32_t begin = static_cast<uint32_t>(range.begin) + leaves_;
  const uint32_t end = static_cast<uint32_t>(range.end) + leaves_;
  for (uint32_t left = begin, right = end; left < right;
       left /= 2, right /= 2) {
    if (left & 1) nodes_[left++] = {top, top};
    if (right & 1) nodes_[--right] = {top, top};
  }
  for (uint32_t node = begin / 2; node > 0; node /= 2) {
    nodes_[node].highest = std::max(nodes_[node].highest, top);
  }
  for (uint32_t node = (end - 1) / 2; node > 0; node /= 2) {
    nodes_[node].highest = std::max(nodes_[node].highest, top);
  }
}

}  // namespace stowage::packing
