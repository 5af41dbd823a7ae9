#ifndef STOWAGE_NN_MODELS_MODEL_LIST_H_
#define STOWAGE_NN_MODELS_MODEL_LIST_H_

// The function of every model in nn/models.def. Each is defined in a file of
// this folder, under the name declared here:
//
//   ModelInfo models::GptNano() { return {.name = "gpt-nano", ...}; }

#include "nn/model_options.h"
#include "nn/models.h"

namespace stowage::models {

#define STOWAGE_MODEL(function) ModelInfo function();
#include "nn/models.def"
#undef STOWAGE_MODEL

/// `config`, with as many tokens as the options ask for, if they do.
template <typename Config>
Config WithVocabulary(Config config, const ModelOptions& options) {
  if (options.vocabulary) config.vocabulary = *options.vocabulary;
  return config;
}

}  // namespace stowage::models

#endif  // STOWAGE_NN_MODELS_MODEL_LIST_H_
