#include "train/choose_optimizer.h"

#include <variant>

namespace stowage {

bool IsOfModel(const Optimizer& optimizer, const TrainingDefaults& defaults) {
  const Result<Optimizer> own = ParseOptimizer(defaults.optimizer);
  return own.ok() && own->index() == optimizer.index();
}

Result<Optimizer> ChooseOptimizer(std::string_view name,
                                  const TrainingDefaults& defaults) {
  const std::string_view chosen = name.empty() ? defaults.optimizer : name;
  STOWAGE_ASSIGN_OR_RETURN(Optimizer optimizer, ParseOptimizer(chosen));
  if (!IsOfModel(optimizer, defaults)) return optimizer;
  if (AdamW* adamw = std::get_if<AdamW>(&optimizer)) {
    adamw->beta1 = defaults.beta1;
    adamw->beta2 = defaults.beta2;
  }
  std::visit([&](auto& kind) { kind.decay = defaults.decay; }, optimizer);
  return optimizer;
}

}  // namespace stowage
