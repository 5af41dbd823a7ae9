#include "stowage/stowage.h"
using namespace stowage;

Result<Graph> Gpt2(int64_t batch) {
  return BuildModel("gpt2-124m", ModelPurpose::kTrain, {.batch = batch});
}
Result<Training> TrainGpt2() {
  return Train({.model = Gpt2,
                .batch = 16,
                .training = {.optimizer = AdamW{.decay = 0.1}},
                .budget = 8'000'000'000});
}
