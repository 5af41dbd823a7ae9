#include "autodiff/cotangents.h"

#include "base/check.h"
#include "ir/ops.h"

namespace stowage {

void Cotangents::Add(ValueId id, Value gradient) {
  if (!wanted(id)) return;
  STOWAGE_CHECK(!gradient.ok() || gradient.type() == forward_.value(id).type);
  std::optional<Value>& sum = sums_[static_cast<size_t>(id)];
  sum = sum ? stowage::Add(*sum, gradient) : gradient;
}

}  // namespace stowage
