// Language models of recurrent layers (nn/text_lstm.h).

#include "nn/models/model_list.h"
#include "nn/text_data.h"
#include "nn/text_lstm.h"

namespace stowage {
namespace {

const TextLstmConfig& Config() {
  static const TextLstmConfig kConfig{.name = "lstm-char",
                                      .layers = 1,
                                      .width = 64,
                                      .hidden = 256,
                                      .vocabulary = kTextVocabulary,
                                      .max_seq = 4096};
  return kConfig;
}

}  // namespace

ModelInfo models::LstmChar() {
  return {.name = Config().name,
          .description = "LSTM over characters, one layer of 256",
          .data = ModelData::kText,
          .batch = 32,
          .seq = 64,
          .max_seq = Config().max_seq,
          .vocabulary = Config().vocabulary,
          .params = CountParams(Config()),
          .training = {.optimizer = "adamw",
                       .beta2 = 0.99,
                       .decay = 0.01,
                       .steps = 1500,
                       .schedule = {.peak = 5e-3,
                                    .warmup = 50,
                                    .final_factor = 0.02}},
          .build = [](ModelPurpose purpose, const ModelOptions& options) {
            return BuildTextLstm(models::WithVocabulary(Config(), options),
                                 purpose, options);
          }};
}

}  // namespace stowage
