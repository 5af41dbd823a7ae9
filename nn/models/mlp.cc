// The classifier of digits (nn/mlp.h).

#include "nn/mlp.h"

#include "nn/models/model_list.h"

namespace stowage {
namespace {

constexpr int64_t kParams = kMlpInputs * kMlpHidden + kMlpHidden +
                            kMlpHidden * kMlpHidden + kMlpHidden +
                            kMlpHidden * kMlpClasses + kMlpClasses;

}  // namespace

ModelInfo models::Mlp() {
  return {.name = "mlp",
          .description =
              "classifier of 8 x 8 digits, two hidden layers of 128 with relu",
          .data = ModelData::kPictures,
          .batch = 64,
          .vocabulary = kMlpClasses,
          .params = kParams,
          .pictures = kMlpPictures,
          .training = {.optimizer = "adamw",
                       .decay = 0.01,
                       .steps = 1500,
                       .schedule = {.peak = 2e-3,
                                    .warmup = 20,
                                    .final_factor = 0.1}},
          .build = BuildMlp};
}

}  // namespace stowage
