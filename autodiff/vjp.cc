#include "autodiff/vjp.h"

#include <array>

#include "base/strings.h"

namespace stowage {

void VjpContext::Refuse(std::string_view reason) {
  builder_.Fail(
      Error{ErrorCode::kUnsupported,
            StrCat("[autodiff] the way to the loss leads through ",
                   Quoted(forward_.value(node_.results.front()).name), ", a ",
                   OpName(node_.op), ", which has no gradient: ", reason)});
}

const Vjp& GetVjp(OpKind op) {
  static constexpr std::array<const Vjp*, kNumOps> kVjps = {
#define STOWAGE_OP(kind, name) &kind##Vjp,
#include "ir/ops.def"
#undef STOWAGE_OP
  };
  return *kVjps[static_cast<size_t>(op)];
}

}  // namespace stowage
