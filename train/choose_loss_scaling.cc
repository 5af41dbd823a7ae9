#include "train/choose_loss_scaling.h"

#include <charconv>
#include <system_error>

#include "base/strings.h"

namespace stowage {

Result<std::optional<LossScaling>> ChooseLossScaling(std::string_view text,
                                                     DType dtype) {
  using Scaling = std::optional<LossScaling>;
  const bool is_by_type = text.empty() && dtype == DType::kF16;
  if (text == "dynamic" || is_by_type) return Scaling(LossScaling{});
  if (text == "none" || text.empty()) return Scaling();
  LossScaling fixed = {.is_dynamic = false};
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, fixed.init_scale);
  if (parsed.ec != std::errc() || parsed.ptr != end ||
      !CheckLossScaling(fixed).ok()) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[loss-scale] ", Quoted(text),
                        " is neither dynamic, none, nor a number above 0 "
                        "that f32 has, and the inverse of")};
  }
  return Scaling(fixed);
}

}  // namespace stowage
