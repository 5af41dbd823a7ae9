#include "planner/packing/part.h"

namespace stowage::packing {

bool IsLasting(const Part& part, const Item& item) {
  return item.range.begin == 0 && item.range.end == part.columns;
}

bool WastesLess(const Item& a, const Item& b) {
  if (a.alignment != b.alignment) return a.alignment > b.alignment;
  return a.size % a.alignment == 0 && b.size % b.alignment != 0;
}

}  // namespace stowage::packing
