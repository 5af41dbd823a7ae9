#include "stowage/stowage.h"
using namespace stowage;

ModelFn Gpt2(ModelPurpose use) {
  return [=](int64_t n) { return BuildModel("gpt2-124m", use, {.batch = n}); };
}
Result<Training> TrainGpt2() {
  return Train({.model = Gpt2(ModelPurpose::kTrain),
                .batch = 16,
                .training = {.optimizer = AdamW{.decay = 0.1},
                             .groups = {{.pattern = "*.bias", .decay = 0}}},
                .programs = {{.name = "evaluate",
                              .model = Gpt2(ModelPurpose::kEvaluate),
                              .batch = 64}},
                .budget = 8'000'000'000});
}
