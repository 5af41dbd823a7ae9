#ifndef STOWAGE_NN_RECURRENT_H_
#define STOWAGE_NN_RECURRENT_H_

// Provides recurrent layers, and a language model built from them. A single matmul computes the
// contribution of the input to the gates for all time steps. Each step adds the contribution of the
// hidden state, which is another matmul. The steps of an LSTM layer are one op (LstmSequence), and
// the steps of a GRU layer are a loop (ir/control_flow.h), so the number of nodes does not depend
// on the sequence length.
//
// Names and layouts of params follow PyTorch's nn.LSTM and nn.GRU. Layer k has
// "<name>.weight_ih_l<k>" (gates * H, in), "<name>.weight_hh_l<k>" (gates * H, H),
// "<name>.bias_ih_l<k>" and "<name>.bias_hh_l<k>" (gates * H). All are initially uniform in
// +-1/sqrt(H).
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

/// The state of an LSTM layer. h and c are both (B, H).
struct LstmState {
  Value h, c;
};

struct LstmOptions {
  int64_t layers = 1;
  std::vector<LstmState> initial = {};  // of each layer; if empty, zeros
  Dropouts* dropouts = nullptr;         // after each layer except the last
};

struct LstmResults {
  Value y;  // (B, T, H), all hidden states of the last layer
  std::vector<LstmState> last;  // of each layer, after the last step
};

/// Applies LSTM layers with H = `hidden` units (Hochreiter & Schmidhuber 1997, with forget gates)
/// to x (B, T, in). The order of the gates is i, f, g, o: c = sigmoid(f) c + sigmoid(i) tanh(g), h
/// = sigmoid(o) tanh(c). Records an error if x is not a floating-point tensor of rank 3, if
/// `hidden` or `layers` is below 1, if `initial` is not empty and has another number of layers, or
/// if an initial state is not (B, H) of x's type.
LstmResults Lstm(Value x, std::string_view name, int64_t hidden,
                 const LstmOptions& options = {},
                 SourceLoc loc = SourceLoc::Current());

/// The params of a layer. weight_ih is (gates * H, in), weight_hh is (gates * H, H), and the biases
/// are (gates * H).
struct RecurrentParams {
  Value weight_ih, weight_hh, bias_ih, bias_hh;
};

/// Declares the params of layer number `layer` of the LSTM `name`, for `in` input features.
RecurrentParams DeclareLstmParams(GraphBuilder& g, std::string_view name,
                                  int64_t layer, DType dtype, int64_t in,
                                  int64_t hidden,
                                  SourceLoc loc = SourceLoc::Current());

/// Applies one layer of Lstm with existing params and state, for example in the body of a loop.
/// Returns all hidden states, (B, T, H), for x (B, T, in). *state is the initial state, and is
/// replaced by the state after the last step.
Value LstmLayer(Value x, const RecurrentParams& params, LstmState* state,
                SourceLoc loc = SourceLoc::Current());

struct GruOptions {
  int64_t layers = 1;
  std::vector<Value> initial = {};  // (B, H) by layer; if empty, zeros
  Dropouts* dropouts = nullptr;     // after each layer except the last
};

struct GruResults {
  Value y;                  // (B, T, H), all hidden states of the last layer
  std::vector<Value> last;  // (B, H) of each layer, after the last step
};

/// Applies GRU layers with H = `hidden` units (Cho et al. 2014) to x (B, T, in). The order of the
/// gates is r, z, n. As in PyTorch, the reset gate r scales the contribution of the hidden state,
/// including its bias: n = tanh(n_x + sigmoid(r) n_h), h = n + sigmoid(z) (h - n). n_x and n_h are
/// the contributions of the input and of the hidden state. Records the errors that Lstm records.
GruResults Gru(Value x, std::string_view name, int64_t hidden,
               const GruOptions& options = {},
               SourceLoc loc = SourceLoc::Current());

// A language model that consists of an embedding, an LSTM and an output layer. Its params are
// "embedding.weight" (vocabulary, width), the params of "lstm", "head.weight" (hidden, vocabulary)
// and "head.bias". All are initially uniform, except "head.bias", which starts at zeros.
//
//   Result<Graph> graph = BuildTextLstm({.name = "tiny", .layers = 1, .width = 16,
//                                        .hidden = 32, .vocabulary = 40,
//                                        .max_seq = 64},
//                                       ModelPurpose::kTrain,
//                                       {.batch = 3, .seq = 16});

struct TextLstmConfig {
  std::string name;
  int64_t layers = 1;
  int64_t width = 1;   // width of the embedding
  int64_t hidden = 1;  // units of each layer
  int64_t vocabulary = 1;
  int64_t max_seq = 1;
};

/// If the sequence length is a multiple of kSegment and at least kMinInSegments, a loss is computed
/// by a loop over segments of kSegment positions. If the planner recomputes the iterations, the
/// activations need only the memory of one segment (docs/explanation/budgets.md). The loop is not
/// used with dropout. It is also not used with 16-bit types, because the sums of the segments'
/// gradients would be rounded.
inline constexpr int64_t kSegment = 64;
inline constexpr int64_t kMinInSegments = 512;

/// Returns the graph of the language model. The inputs are "tokens" and, except for generation,
/// "targets". Both are i32 (B, T) in [0, vocabulary), and targets[b, t] is the token that follows
/// tokens[b, t]. The output is "loss", the mean of -log p in nats per token. For generation, the
/// output is "logits" (B, T, vocabulary), or (B, vocabulary) with ModelOptions::cache. The initial
/// state is zero, or the state after the previous run with ModelOptions::cache. Dropout follows the
/// embedding and every layer. Returns kInvalidArgument if a size of `config` is below 1. Propagates
/// errors of CheckTextModelOptions, CheckNoLogitChunk and CheckNoEmbedding.
Result<Graph> BuildTextLstm(const TextLstmConfig& config, ModelPurpose purpose,
                            const ModelOptions& options);

/// Returns the number of elements of all params.
int64_t CountParams(const TextLstmConfig& config);

}  // namespace stowage

#endif  // STOWAGE_NN_RECURRENT_H_
