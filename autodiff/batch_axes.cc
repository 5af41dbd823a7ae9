#include "autodiff/batch_axes.h"

#include <optional>

#include "base/strings.h"
#include "ir/dtype.h"
#include "ir/ops.h"
#include "ir/shape.h"

namespace stowage {
namespace {

template <typename... Args>
Error Fail(const Args&... args) {
  return Error{ErrorCode::kInvalidArgument, StrCat("[autodiff] ", args...)};
}

}  // namespace

Status BatchAxes::Mismatch(const Graph& piece, const ValueInfo& info,
                           std::string_view why) const {
  const std::optional<ValueId> id = whole_.Find(info.name);
  return Fail("piece ", Quoted(piece.name()), " has ", RoleName(info.role), " ",
              Quoted(info.name), " of ", info.type.ToString(), ", batch ",
              Quoted(whole_.name()), " has ",
              id ? whole_.value(*id).type.ToString() : std::string("none"),
              "; ", why);
}

Status BatchAxes::Add(const Graph& piece) {
  weight_ = 0;
  for (ValueId id = 0; id < piece.num_values(); ++id) {
    const ValueInfo& info = piece.value(id);
    if (!info.is_leaf()) continue;
    const std::optional<ValueId> in_whole = whole_.Find(info.name);
    if (!in_whole || whole_.value(*in_whole).role != info.role) {
      return Mismatch(piece, info, "build both with the same model");
    }
    const TensorType& all = whole_.value(*in_whole).type;
    const bool known = splits_.contains(info.name);
    if (all == info.type && !known) continue;
    const Shape& part = info.type.shape;
    int axis = known ? splits_[info.name].axis : 0;
    while (!known && axis < part.rank() && axis < all.shape.rank() &&
           part[axis] == all.shape[axis]) {
      ++axis;
    }
    Shape rest = part;
    if (axis < part.rank() && axis < all.shape.rank()) {
      rest[axis] = all.shape[axis];
    }
    if (info.role != Role::kInput || all != TensorType{info.type.dtype, rest}) {
      return Mismatch(piece, info,
                      "only inputs may differ, and in one dimension");
    }
    Split& split = splits_[info.name];
    split.axis = axis;
    split.start = split.end;
    split.end += part[axis];
    const double weight =
        static_cast<double>(part[axis]) / static_cast<double>(all.shape[axis]);
    if (split.end > all.shape[axis] || (weight_ != 0 && weight != weight_)) {
      return Mismatch(piece, info,
                      "all inputs must be cut at the same examples");
    }
    weight_ = weight;
  }
  if (weight_ > 0) return {};
  return Fail(
      "piece ", Quoted(piece.name()),
      " takes as much as the whole batch in every input; expected parts "
      "of it");
}

Status BatchAxes::CheckComplete() const {
  for (const auto& [name, split] : splits_) {
    const int64_t size = part_.value(*part_.Find(name)).type.shape[split.axis];
    if (split.end == size) continue;
    return Fail("the pieces take ", split.end, " of the ", size,
                " examples of input ", Quoted(name),
                "; expected every example once");
  }
  return {};
}

Value BatchAxes::Part(const Graph& piece, ValueId id, Value whole) const {
  const auto it = splits_.find(piece.value(id).name);
  if (it == splits_.end()) return whole;
  if (whole.type() == piece.value(id).type) return whole;
  return Slice(whole, it->second.axis, it->second.start, it->second.end);
}

}  // namespace stowage
