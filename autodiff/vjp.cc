#include "autodiff/vjp.h"

#include <array>
#include <optional>

#include "base/strings.h"
#include "ir/op_def.h"

namespace stowage {
namespace {

constexpr Vjp kNoneGiven = {
    .rule = nullptr,
    .refusal = "none is defined; DefineVjp gives an op its derivative"};

constinit std::array<std::optional<Vjp>, kMaxCustomOps> custom_vjps;

}  // namespace

void VjpContext::Refuse(std::string_view reason) {
  builder_.Fail(
      Error{ErrorCode::kUnsupported,
            StrCat("[autodiff] the way to the loss leads through ",
                   Quoted(forward_.value(node_.results.front()).name), ", a ",
                   OpName(node_.op), ", which has no gradient: ", reason)});
}

Status DefineVjp(OpKind op, const Vjp& vjp) {
  STOWAGE_ASSIGN_OR_RETURN(const size_t index, CustomOpIndex(op, "derivative"));
  custom_vjps[index] = vjp;
  return {};
}

const Vjp& GetVjp(OpKind op) {
  if (const auto index = CustomIndex(op)) {
    const std::optional<Vjp>& given = custom_vjps[*index];
    return given ? *given : kNoneGiven;
  }
  static constexpr std::array<const Vjp*, kNumOps> kVjps = {
#define STOWAGE_OP(kind, name) &kind##Vjp,
#include "ir/ops.def"
#undef STOWAGE_OP
  };
  return *kVjps[static_cast<size_t>(op)];
}

}  // namespace stowage
