#ifndef STOWAGE_NN_RECURRENT_H_
#define STOWAGE_NN_RECURRENT_H_

// Recurrent layers. What the inputs add to the gates is one product for all steps; each
// step adds the product of its hidden state. An LSTM's steps are one op (LstmSequence),
// a GRU's a loop (ir/control_flow.h): a graph has as many nodes over any length.
//
// Params are named and laid out as those of PyTorch's nn.LSTM and nn.GRU, so its files
// load as they are: for layer k "<name>.weight_ih_l<k>" (gates * H, in),
// "<name>.weight_hh_l<k>" (gates * H, H), "<name>.bias_ih_l<k>" and
// "<name>.bias_hh_l<k>" (gates * H), all uniform in +-1/sqrt(H) at first.
//
//   LstmResults r = Lstm(x, "lstm", 256, {.layers = 2});
//   Value logits = Linear(r.y, "fc", 96);

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"
#include "ir/graph.h"
#include "nn/layers.h"
#include "nn/model_options.h"

namespace stowage {

/// Of one layer, each (B, H).
struct LstmState {
  Value h, c;
};

struct LstmOptions {
  int64_t layers = 1;
  std::vector<LstmState> initial = {};  // of each layer; zeros where empty
  Dropouts* dropouts = nullptr;         // after each layer but the last
};

struct LstmResults {
  Value y;  // (B, T, H), every hidden state of the last layer
  std::vector<LstmState> last;  // of each layer, after the last step
};

/// x (B, T, in) through layers of H = `hidden` (Hochreiter & Schmidhuber 1997, with
/// forget gates), gates in the order i, f, g, o:
/// c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c).
/// Errors: x that is not (B, T, in) of floats; hidden or layers below 1; states for
/// another number of layers, or of another type than (B, H).
LstmResults Lstm(Value x, std::string_view name, int64_t hidden,
                 const LstmOptions& options = {},
                 SourceLoc loc = SourceLoc::Current());

/// Of one layer, (gates * H, in), (gates * H, H) and (gates * H).
struct RecurrentParams {
  Value weight_ih, weight_hh, bias_ih, bias_hh;
};

/// Declares the params of layer `layer` of "<name>", of inputs of `in` features.
RecurrentParams DeclareLstmParams(GraphBuilder& g, std::string_view name,
                                  int64_t layer, DType dtype, int64_t in,
                                  int64_t hidden,
                                  SourceLoc loc = SourceLoc::Current());

/// One layer of Lstm with params and a state that are there, as in the body of a loop:
/// (B, T, in) -> (B, T, H). The state becomes that after the last step.
Value LstmLayer(Value x, const RecurrentParams& params, LstmState* state,
                SourceLoc loc = SourceLoc::Current());

struct GruOptions {
  int64_t layers = 1;
  std::vector<Value> initial = {};  // (B, H) of each layer; zeros where empty
  Dropouts* dropouts = nullptr;     // after each layer but the last
};

struct GruResults {
  Value y;                  // (B, T, H), every hidden state of the last layer
  std::vector<Value> last;  // (B, H) of each layer, after the last step
};

/// The same with gates r, z, n (Cho et al. 2014, in PyTorch's form, where the reset
/// gate scales the hidden state's product and its bias):
/// n = tanh(n_x + sigmoid(r) n_h), h = n + sigmoid(z) (h - n). Errors: as Lstm's.
GruResults Gru(Value x, std::string_view name, int64_t hidden,
               const GruOptions& options = {},
               SourceLoc loc = SourceLoc::Current());

// A language model of recurrent layers: an embedding, an LSTM (nn/recurrent.h) and an
// output layer. Params: "embedding.weight" (vocabulary, width), those of "lstm", and
// "head.weight" (hidden, vocabulary), "head.bias", all uniform at first.
//
//   Result<Graph> graph = BuildTextLstm({.name = "tiny", .layers = 1, .width = 16,
//                                        .hidden = 32, .vocabulary = 40,
//                                        .max_seq = 64},
//                                       ModelPurpose::kTrain,
//                                       {.batch = 3, .seq = 16});

struct TextLstmConfig {
  std::string name;
  int64_t layers = 1;
  int64_t width = 1;   // of the embedding
  int64_t hidden = 1;  // of each layer
  int64_t vocabulary = 1;
  int64_t max_seq = 1;
};

/// Windows of so many positions or more, a multiple of kSegment, run through a loop over
/// segments of kSegment, so that a window takes the memory of one segment where iterations
/// may be made again (docs/explanation/budgets.md). Not where there are dropouts or caches, nor in
/// types of 16 bits, in which gradients of segments would be rounded as they add up.
inline constexpr int64_t kSegment = 64;
inline constexpr int64_t kMinInSegments = 512;

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

#endif  // STOWAGE_NN_RECURRENT_H_
