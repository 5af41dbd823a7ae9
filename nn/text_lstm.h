#ifndef STOWAGE_NN_TEXT_LSTM_H_
#define STOWAGE_NN_TEXT_LSTM_H_

// A language model of recurrent layers: an embedding, an LSTM (nn/recurrent.h) and an
// output layer. Params: "embedding.weight" (vocabulary, width), those of "lstm", and
// "head.weight" (hidden, vocabulary), "head.bias", all uniform at first.
//
//   Result<Graph> graph = BuildTextLstm({.name = "tiny", .layers = 1, .width = 16,
//                                        .hidden = 32, .vocabulary = 40,
//                                        .max_seq = 64},
//                                       ModelPurpose::kTrain,
//                                       {.batch = 3, .seq = 16});

#include <cstdint>
#include <string>

#include "base/result.h"
#include "ir/graph.h"
#include "nn/model_options.h"

namespace stowage {

struct TextLstmConfig {
  std::string name;
  int64_t layers = 1;
  int64_t width = 1;   // of the embedding
  int64_t hidden = 1;  // of each layer
  int64_t vocabulary = 1;
  int64_t max_seq = 1;
};

/// Windows of so many positions or more, a multiple of kSegment, run through a loop over
/// segments of kSegment, so that a window takes the memory of one segment where trips
/// may be made again (docs/budgets.md). Not where there are dropouts or caches, nor in
/// types of 16 bits, in which gradients of segments would be rounded as they add up.
inline constexpr int64_t kSegment = 64;
inline constexpr int64_t kLeastInSegments = 512;

/// Inputs: "tokens" and, unless generating, "targets", both i32 (B, T) in
/// [0, vocabulary), where targets[i] is the token that follows tokens[i]. Outputs:
/// "loss", the mean of -log p in nats per token; when generating "logits"
/// (B, T, vocabulary). A window starts from a state of zeros. Dropout follows the
/// embedding and every layer. Errors: batch or seq absent, below 1, or seq above
/// max_seq; a size of `config` below 1; dropout outside [0, 1); an integer dtype;
/// a logit_chunk.
Result<Graph> BuildTextLstm(const TextLstmConfig& config, ModelPurpose purpose,
                            const ModelOptions& options);

/// Elements of all params of that model.
int64_t CountParams(const TextLstmConfig& config);

}  // namespace stowage

#endif  // STOWAGE_NN_TEXT_LSTM_H_
