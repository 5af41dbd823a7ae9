#include "onnx/ops.h"

#include <algorithm>

namespace stowage::onnx {
namespace {

constexpr ImportedOp kOps[] = {
#define STOWAGE_ONNX_OP(Name, operands, since, changed, limits) \
  {#Name, operands, since, changed, limits, Convert##Name},
#define STOWAGE_ONNX_BODY_OP(Name, operands, since, changed, limits) \
  {#Name, operands, since, changed, limits, nullptr},
#include "onnx/ops.def"
#undef STOWAGE_ONNX_OP
};

constexpr bool ByName(const ImportedOp& a, const ImportedOp& b) {
  return a.name < b.name;
}
static_assert(std::is_sorted(std::begin(kOps), std::end(kOps), ByName));

}  // namespace

std::span<const ImportedOp> ImportedOps() { return kOps; }

const ImportedOp* FindOp(std::string_view domain, std::string_view name) {
  if (!domain.empty() && domain != "ai.onnx") return nullptr;
  const auto* const found = std::lower_bound(
      std::begin(kOps), std::end(kOps), name,
      [](const ImportedOp& op, std::string_view n) { return op.name < n; });
  return found != std::end(kOps) && found->name == name ? found : nullptr;
}

}  // namespace stowage::onnx
