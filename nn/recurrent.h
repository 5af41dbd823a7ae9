#ifndef STOWAGE_NN_RECURRENT_H_
#define STOWAGE_NN_RECURRENT_H_

// Recurrent layers, and a language model of them. The input part of the gates is one matmul
// for all steps; each step adds a matmul of the hidden state. An LSTM's steps are one op
// (LstmSequence), a GRU's a loop (ir/control_flow.h), so the number of nodes does not depend
// on the length.
//
// Names and layouts of params are those of PyTorch's nn.LSTM and nn.GRU: for layer k "<name>.weight_ih_l<k>" (gates * H, in),
// "<name>.weight_hh_l<k>" (gates * H, H), "<name>.bias_ih_l<k>" and
// "<name>.bias_hh_l<k>" (gates * H), all initially uniform in +-1/sqrt(H).
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

/// The state of a layer, each (B, H).
struct LstmState {
  Value h, c;
};

struct LstmOptions {
  int64_t layers = 1;
  std::vector<LstmState> initial = {};  // by layer; empty: zeros
  Dropouts* dropouts = nullptr;         // after each layer except the last
};

struct LstmResults {
  Value y;  // (B, T, H), every hidden state of the last layer
  std::vector<LstmState> last;  // by layer, after the last step
};

/// x (B, T, in) through layers of H = `hidden` (Hochreiter & Schmidhuber 1997, with
/// forget gates), gates in the order i, f, g, o:
/// c = sigmoid(f) c + sigmoid(i) tanh(g), h = sigmoid(o) tanh(c).
/// Errors: x that is not (B, T, in) of floats; hidden or layers below 1; states for
/// another number of layers, or of another type than (B, H).
LstmResults Lstm(Value x, std::string_view name, int64_t hidden,
                 const LstmOptions& options = {},
                 SourceLoc loc = SourceLoc::Current());

/// The params of a layer, (gates * H, in), (gates * H, H) and twice (gates * H).
struct RecurrentParams {
  Value weight_ih, weight_hh, bias_ih, bias_hh;
};

/// Declares the params of layer `layer` of "<name>", for `in` input features.
RecurrentParams DeclareLstmParams(GraphBuilder& g, std::string_view name,
                                  int64_t layer, DType dtype, int64_t in,
                                  int64_t hidden,
                                  SourceLoc loc = SourceLoc::Current());

/// One layer of Lstm with existing params and state, as in the body of a loop:
/// (B, T, in) -> (B, T, H). Replaces *state by the state after the last step.
Value LstmLayer(Value x, const RecurrentParams& params, LstmState* state,
                SourceLoc loc = SourceLoc::Current());

struct GruOptions {
  int64_t layers = 1;
  std::vector<Value> initial = {};  // (B, H) by layer; empty: zeros
  Dropouts* dropouts = nullptr;     // after each layer except the last
};

struct GruResults {
  Value y;                  // (B, T, H), every hidden state of the last layer
  std::vector<Value> last;  // (B, H) by layer, after the last step
};

/// As Lstm, with gates r, z, n (Cho et al. 2014, in PyTorch's form, in which the reset gate
/// scales the hidden state's matmul and bias):
/// n = tanh(n_x + sigmoid(r) n_h), h = n + sigmoid(z) (h - n). Errors: as Lstm's.
GruResults Gru(Value x, std::string_view name, int64_t hidden,
               const GruOptions& options = {},
               SourceLoc loc = SourceLoc::Current());

// A language model: an embedding, an LSTM and an output layer. Params: "embedding.weight"
// (vocabulary, width), those of "lstm", "head.weight" (hidden, vocabulary) and "head.bias",
// all initially uniform.
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

/// Windows of at least kMinInSegments positions, a multiple of kSegment, run as a loop over
/// segments of kSegment, so that a window takes the memory of one segment if iterations are
/// recomputed (docs/explanation/budgets.md). Not used with dropouts or caches, nor with 16-bit types, in
/// which the sums of the segments' gradients would be rounded.
inline constexpr int64_t kSegment = 64;
inline constexpr int64_t kMinInSegments = 512;

/// Inputs: "tokens" and, unless generating, "targets", both i32 (B, T) in
/// [0, vocabulary), where targets[i] is the token that follows tokens[i]. Outputs:
/// "loss", the mean of -log p in nats per token; when generating "logits"
/// (B, T, vocabulary). The initial state is zero. Dropout follows the
/// embedding and every layer. Errors: batch or seq absent, below 1, or seq above
/// max_seq; a size of `config` below 1; dropout outside [0, 1); an integer dtype;
/// a logit_chunk.
Result<Graph> BuildTextLstm(const TextLstmConfig& config, ModelPurpose purpose,
                            const ModelOptions& options);

/// The number of elements of all params.
int64_t CountParams(const TextLstmConfig& config);

}  // namespace stowage

#endif  // STOWAGE_NN_RECURRENT_H_
