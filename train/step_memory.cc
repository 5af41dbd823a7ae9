#include "train/step_memory.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "autodiff/backward.h"
#include "base/result.h"
#include "base/strings.h"

namespace stowage {
namespace {

// A value, in multiples, and its need; absent if the model refuses the value.
struct Point {
  int64_t at = 0;
  std::optional<Bytes> need = {};
};

// The value at which the line through two points reaches `budget`; absent if the line does
// not rise.
std::optional<int64_t> Where(const Point& a, const Point& b, Bytes budget) {
  if (!a.need || !b.need || *b.need <= *a.need) return std::nullopt;
  const double slope =
      static_cast<double>(*b.need - *a.need) / static_cast<double>(b.at - a.at);
  const double at =
      static_cast<double>(a.at) + static_cast<double>(budget - *a.need) / slope;
  return at < 1e15 ? std::optional(static_cast<int64_t>(std::floor(at)))
                   : std::nullopt;
}

// The number of values tried after a refused one.
constexpr int64_t kBehind = 2;

class Search {
 public:
  Search(const std::function<Result<Bytes>(int64_t)>& need_of, Bytes budget,
         const LargestOptions& options)
      : need_of_(need_of),
        budget_(budget),
        multiple_(options.multiple),
        most_(options.most / options.multiple) {}

  Result<Largest> Run() {
    STOWAGE_RETURN_IF_ERROR(Begin());
    for (bool is_last = false; !is_last;) {
      STOWAGE_RETURN_IF_ERROR(Bracket());
      STOWAGE_ASSIGN_OR_RETURN(is_last, LookBehind());
    }
    largest_.value = fits_.at * multiple_;
    largest_.need = *fits_.need;
    return largest_;
  }

 private:
  // Narrows the bounds until a value fits and the next does not.
  Status Bracket() {
    while (!refused_ && fits_.at < most_) {
      STOWAGE_RETURN_IF_ERROR(Ask(Further()));
    }
    bool halves = false;
    while (refused_ && refused_->at - fits_.at > 1) {
      const int64_t between = refused_->at - fits_.at;
      STOWAGE_RETURN_IF_ERROR(Ask(halves ? fits_.at + between / 2 : Between()));
      // Bisect after a prediction that left more than half, which bounds the calls.
      halves = refused_->at - fits_.at > between / 2;
    }
    return {};
  }

  // Whether the values after the refused one are refused, too; if one fits, continues from it. A
  // model that refuses a value refuses larger ones.
  Result<bool> LookBehind() {
    if (!refused_ || !refused_->need) return true;
    const Point refused = *refused_;
    const Largest::Above above = *largest_.above;
    for (int64_t behind = 1; behind <= kBehind; ++behind) {
      if (refused.at + behind > most_) break;
      STOWAGE_RETURN_IF_ERROR(Ask(refused.at + behind));
      if (fits_.at <= refused.at) continue;
      refused_.reset();
      largest_.above.reset();
      return false;
    }
    refused_ = refused;
    largest_.above = above;
    return true;
  }

  Status Begin() {
    STOWAGE_ASSIGN_OR_RETURN(const Bytes need, need_of_(multiple_));
    ++largest_.plans;
    fits_ = before_ = {.at = 1, .need = need};
    if (need <= budget_) return {};
    return Error{ErrorCode::kBudgetTooSmall,
                 StrCat("[largest] the least value, ", multiple_, ", needs ",
                        need, " bytes, more than the budget of ", budget_)};
  }

  Status Ask(int64_t at) {
    Result<Bytes> need = need_of_(at * multiple_);
    ++largest_.plans;
    if (!need.ok() && need.error().code != ErrorCode::kInvalidArgument &&
        need.error().code != ErrorCode::kUnsupported) {
      return need.error();
    }
    const Point point = {
        .at = at, .need = need.ok() ? std::optional(*need) : std::nullopt};
    if (need.ok() && *need <= budget_) {
      before_ = fits_;
      fits_ = point;
    } else {
      refused_ = point;
      largest_.above =
          Largest::Above{.value = at * multiple_, .need = std::move(need)};
    }
    return {};
  }

  // Twice the value that fits, or up to eight times if the last two predict it: just above their
  // prediction, so that it is refused.
  int64_t Further() const {
    const std::optional<int64_t> where = Where(before_, fits_, budget_);
    const int64_t twice = fits_.at > most_ / 2 ? most_ : 2 * fits_.at;
    if (!where) return twice;
    const int64_t far = fits_.at > most_ / 8 ? most_ : 8 * fits_.at;
    return std::clamp(*where + 1, fits_.at + 1, far);
  }

  // The value between the two ends at which a line through their needs reaches the budget.
  int64_t Between() const {
    const int64_t middle = fits_.at + (refused_->at - fits_.at) / 2;
    const int64_t where = Where(fits_, *refused_, budget_).value_or(middle);
    return std::clamp(where, fits_.at + 1, refused_->at - 1);
  }

  const std::function<Result<Bytes>(int64_t)>& need_of_;
  const Bytes budget_;
  const int64_t multiple_, most_;
  Point before_, fits_;  // the last two that fit
  std::optional<Point> refused_;
  Largest largest_;
};

}  // namespace

Result<Largest> FindLargest(
    const std::function<Result<Bytes>(int64_t)>& need_of, Bytes budget,
    const LargestOptions& options) {
  if (options.multiple < 1 || options.most < options.multiple) {
    return InvalidArgumentError("[largest] values are multiples of ",
                                options.multiple, " up to ", options.most,
                                "; expected at least one, above 0");
  }
  return Search(need_of, budget, options).Run();
}

ParamBytes MeasureParamBytes(const Graph& graph, const Plan& plan) {
  ParamBytes bytes = {.weights = plan.regions.weights,
                      .states = plan.regions.state + plan.regions.host_state};
  for (const ValueId param : graph.Leaves(Role::kParam)) {
    const ValueInfo& info = graph.value(param);
    if (!info.on_host) continue;
    const Bytes slot = AlignUp(info.type.bytes(), plan.alignment);
    bytes.weights += slot;
    bytes.states -= slot;
  }
  std::set<int32_t> gradients;  // their buffers
  for (const ValueId param : graph.Leaves(Role::kParam)) {
    const ValueInfo& info = graph.value(param);
    bytes.params += info.type.shape.num_elements();
    const std::optional<ValueId> gradient = graph.Find(GradientName(info.name));
    if (gradient) {
      gradients.insert(plan.buffer_of[static_cast<size_t>(*gradient)]);
    }
  }
  std::map<Time, Bytes> changes;
  for (const int32_t buffer : gradients) {
    const PlannedBuffer& planned = plan.buffers[static_cast<size_t>(buffer)];
    changes[planned.lower] += planned.size;
    changes[planned.upper] -= planned.size;
  }
  Bytes live = 0;
  for (const auto& [time, change] : changes) {
    live += change;
    bytes.gradients = std::max(bytes.gradients, live);
  }
  return bytes;
}

}  // namespace stowage
