#ifndef STOWAGE_NN_PRETRAINED_H_
#define STOWAGE_NN_PRETRAINED_H_

// A published model: its graph, and for each of its params the tensor in the file. Opening
// checks that every param is present with its shape and that every tensor is used. It reads
// no weights, except a head that the config declares tied to the embedding: one that differs
// is kept as a separate param, as in transformers.
//
//   Result<PretrainedModel> model = PretrainedModel::Open("SmolLM2-135M.Q4_1.gguf");
//   Result<Graph> graph = model->Build(ModelPurpose::kGenerate, {.batch = 1, .seq = 64});
//   ...  // a session of it
//   for (const PretrainedParam& param : model->params()) {
//     std::vector<float> numbers(static_cast<size_t>(param.shape.num_elements()));
//     Status read = model->ReadFloats(param, /*first_row=*/0, numbers);
//     runner.Write(param.name, numbers);
//   }
//
// Params have the names, row order and values of Hugging Face's models (nn/llama.h; GPT-2's
// without "transformer.", nn/gpt.h). GGUF files of some architectures differ
// (nn/gguf_form.h); reading reorders whole rows, so quantized blocks are unchanged. Adapters
// and merged weights are therefore compatible with other programs.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "formats/weights_file.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "nn/gguf_form.h"
#include "nn/model_options.h"
#include "nn/published_model.h"

namespace stowage {

/// The number of rows of a param for reading: elements of a vector, else the product of all
/// dimensions but the last.
int64_t RowsOf(const Shape& shape);

/// Names for messages: "a", "b", "c", "d", "e" and 3 more.
std::string Named(std::span<const std::string> names);

/// Options of an encoder that classifies texts.
struct ClassifierOptions {
  /// Names of the labels, in the order of the logits; empty: those of the file.
  std::vector<std::string> labels = {};
  /// Replace the rates of config.json.
  std::optional<double> hidden_dropout = {};
  std::optional<double> attention_dropout = {};
  std::optional<double> classifier_dropout = {};
};

/// Options of a model that embeds texts. They replace the rates of an encoder's config.json.
struct EmbedderOptions {
  std::optional<double> hidden_dropout = {};
  std::optional<double> attention_dropout = {};
};

struct PretrainedParam {
  std::string name;
  Shape shape;
  /// Indices in WeightsFile::tensors(): the param's tensor, or one per expert, in order.
  std::vector<size_t> tensors = {};
  GgufRows in_file = {};  // row order in a GGUF file

  int64_t rows() const { return RowsOf(shape); }
};

class PretrainedModel {
 public:
  /// Opens a language model in a GGUF file, a safetensors file or a folder
  /// (formats/weights_file.h). Errors: kUnsupported for an encoder;
  /// those of WeightsFile::Open and DescribeModel; kInvalidArgument, naming them, for missing
  /// params, unused tensors, other shapes, unsupported types. Tensors that the model computes
  /// itself are ignored: rope's frequencies, causal masks, a head equal to the tied
  /// embedding.
  static Result<PretrainedModel> Open(const std::string& path);

  /// Opens an encoder to classify texts (nn/encoder.h): a Hugging Face folder of a
  /// ForSequenceClassification model, or of one without such a head, which is then
  /// initialized for the labels of `options`. Errors as Open; kInvalidArgument for other
  /// labels than the file's, and for fewer than 2 if the file has none; kUnsupported for a
  /// model that is not an encoder.
  static Result<PretrainedModel> OpenClassifier(
      const std::string& path, const ClassifierOptions& options = {});

  /// Opens a model to embed texts (nn/contrastive.h): a Hugging Face folder of an encoder or of
  /// a decoder of nn/llama.h, with or without a head, whose tensors are then unread. Graphs
  /// require ModelOptions::embedding. Errors as Open; kUnsupported for GPT-2, a GGUF file, and
  /// a decoder that attends in both directions; kInvalidArgument for dropouts of a decoder.
  static Result<PretrainedModel> OpenEmbedder(
      const std::string& path, const EmbedderOptions& options = {});

  const WeightsFile& file() const { return file_; }
  const PublishedModel& model() const { return model_; }
  /// Whether the model embeds texts.
  bool embeds() const { return embeds_; }
  int64_t vocabulary() const;
  int64_t max_seq() const;

  /// Elements of a token's vector.
  int64_t width() const;

  /// The encoder's config; null for a language model.
  const EncoderConfig* encoder() const {
    return std::get_if<EncoderConfig>(&model_.config);
  }

  /// The model's graph. Errors as BuildLlama, BuildGpt and BuildEncoder.
  Result<Graph> Build(ModelPurpose purpose, const ModelOptions& options) const;

  /// The name of a param, or of its adapter's, in Hugging Face's model; of a model that embeds,
  /// in the one without a head, such as BertModel.
  std::string PublishedName(std::string_view param) const;

  /// All params, in the order of the graph.
  const std::vector<PretrainedParam>& params() const { return params_; }
  /// Params of a classifier's head that the file lacks; they have initial values.
  const std::vector<std::string>& new_params() const { return new_params_; }
  /// Tensors that are not used: of an encoder's file those of another head, such as for
  /// predicting tokens; of a model that embeds those of any head.
  const std::vector<std::string>& unread() const { return unread_; }
  /// Those of them that the model without a head has, such as BERT's pooler.
  std::vector<const WeightTensor*> kept() const;
  /// The param's first tensor; the others have its type and shape.
  const WeightTensor& tensor(const PretrainedParam& param) const {
    return file_.tensors()[param.tensors.front()];
  }
  /// The size of the param's tensors in the file.
  Bytes bytes(const PretrainedParam& param) const {
    return tensor(param).bytes * std::ssize(param.tensors);
  }

  // Reads rows of a param (elements of a vector) from `first_row` on, until `to` is full, as
  // floats or as stored. Preconditions: `to` has the size of whole existing rows, or whole
  // blocks of a vector; for bytes, in_file.added is 0. Error kIo.
  Status ReadFloats(const PretrainedParam& param, int64_t first_row,
                    std::span<float> to) const;
  Status ReadBytes(const PretrainedParam& param, int64_t first_row,
                   std::span<std::byte> to) const;

 private:
  PretrainedModel(WeightsFile file, PublishedModel model)
      : file_(std::move(file)), model_(std::move(model)) {}
  Status FindTiedHead();
  Status MatchParams();
  const WeightTensor* FindTensor(std::string_view param) const;
  bool IsOfAnotherHead(std::string_view tensor) const;
  std::string_view Prefix() const;

  WeightsFile file_;
  PublishedModel model_;
  std::vector<PretrainedParam> params_;
  std::vector<std::string> new_params_, unread_;
  bool embeds_ = false;
};

}  // namespace stowage

#endif  // STOWAGE_NN_PRETRAINED_H_
