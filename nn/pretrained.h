#ifndef STOWAGE_NN_PRETRAINED_H_
#define STOWAGE_NN_PRETRAINED_H_

// Opens a published model: provides its graph, and finds the tensor in the file for each of its
// params. Opening checks that every param is present with its shape and that every tensor is used.
// It reads no weights, with one exception. If the config declares the head tied to the embedding
// and the file contains a head, both are compared, and a head that differs becomes a separate
// param, as in transformers.
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
// Params have the names, row order and values of Hugging Face's models (nn/llama.h). The names of
// GPT-2's params lack "transformer." (nn/gpt.h). GGUF files of some architectures differ
// (nn/gguf_form.h); reading reorders whole rows, so quantized blocks are unchanged. Adapters and
// merged weights are therefore compatible with other programs.

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

/// Returns the number of rows of a param for reading. A vector has one row per element. Other
/// shapes have a number of rows that is the product of all dimensions but the last.
int64_t RowsOf(const Shape& shape);

/// Returns a list of names for messages: "a", "b", "c", "d", "e" and 3 more.
std::string Named(std::span<const std::string> names);

/// Options for an encoder that classifies texts.
struct ClassifierOptions {
  /// The names of the labels, in the order of the logits. If empty, the labels are the file's.
  std::vector<std::string> labels = {};
  /// These replace the dropout rates of config.json.
  std::optional<double> hidden_dropout = {};
  std::optional<double> attention_dropout = {};
  std::optional<double> classifier_dropout = {};
};

/// Options for a model that embeds texts. They replace the dropout rates of an encoder's
/// config.json.
struct EmbedderOptions {
  std::optional<double> hidden_dropout = {};
  std::optional<double> attention_dropout = {};
};

struct PretrainedParam {
  std::string name;
  Shape shape;
  /// The indices in WeightsFile::tensors() of the param's tensor, or of one tensor per expert, in
  /// order.
  std::vector<size_t> tensors = {};
  GgufRows in_file = {};  // the order of rows in a GGUF file

  int64_t rows() const { return RowsOf(shape); }
};

class PretrainedModel {
 public:
  /// Opens a language model in a GGUF file, a safetensors file or a folder
  /// (formats/weights_file.h). Tensors that the model computes itself are ignored: frequencies of
  /// RoPE, causal masks, and a head equal to the tied embedding. Propagates errors of
  /// WeightsFile::Open and DescribeModel. Returns kUnsupported for an encoder and for a decoder
  /// without a head. Returns kInvalidArgument, with the names, if params are missing, tensors are
  /// unused, or a tensor has another shape or an unsupported type.
  static Result<PretrainedModel> Open(const std::string& path);

  /// Opens an encoder (nn/encoder.h) to classify texts, in a Hugging Face folder of a
  /// ForSequenceClassification model or of a model without such a head. In the second case, a head
  /// for the labels of `options` is initialized. Returns errors as Open does. Also returns
  /// kInvalidArgument if the labels differ from the file's, or if the file has none and fewer than
  /// 2 are given. Returns kUnsupported if the model is not an encoder.
  static Result<PretrainedModel> OpenClassifier(
      const std::string& path, const ClassifierOptions& options = {});

  /// Opens a model to embed texts (nn/contrastive.h), in a Hugging Face folder of an encoder or of
  /// a decoder of nn/llama.h. If the model has a head, its tensors are not read. Graphs require
  /// ModelOptions::embedding. Returns errors as Open does. Also returns kUnsupported for GPT-2, a
  /// GGUF file and a decoder with bidirectional attention, and kInvalidArgument if `options` has
  /// dropout rates for a decoder.
  static Result<PretrainedModel> OpenEmbedder(
      const std::string& path, const EmbedderOptions& options = {});

  const WeightsFile& file() const { return file_; }
  const PublishedModel& model() const { return model_; }
  /// Returns whether the model embeds texts.
  bool embeds() const { return embeds_; }
  int64_t vocabulary() const;
  int64_t max_seq() const;

  /// Returns the number of elements of a token's vector.
  int64_t width() const;

  /// Returns the encoder's config, or null for a decoder.
  const EncoderConfig* encoder() const {
    return std::get_if<EncoderConfig>(&model_.config);
  }

  /// Returns the model's graph. Propagates errors of BuildLlama, BuildGpt and BuildEncoder.
  Result<Graph> Build(ModelPurpose purpose, const ModelOptions& options) const;

  /// Returns the name of a param, or of its adapter's param, in Hugging Face's model. If the model
  /// embeds texts, this is the model without a head, such as BertModel.
  std::string PublishedName(std::string_view param) const;

  /// Returns all params, in the order of the graph.
  const std::vector<PretrainedParam>& params() const { return params_; }
  /// Returns the params of a classifier's head that the file lacks. They have initial values.
  const std::vector<std::string>& new_params() const { return new_params_; }
  /// Returns the tensors that are not used. For an encoder, they belong to another head, such as a
  /// head that predicts tokens. For a model that embeds texts, they belong to any head.
  const std::vector<std::string>& unread() const { return unread_; }
  /// Returns the unread tensors that belong to the model without a head, such as BERT's pooler.
  /// The result is empty unless the model embeds texts.
  std::vector<const WeightTensor*> kept() const;
  /// Returns the param's first tensor. Its other tensors have the same type and shape.
  const WeightTensor& tensor(const PretrainedParam& param) const {
    return file_.tensors()[param.tensors.front()];
  }
  /// Returns the size of the param's tensors in the file.
  Bytes bytes(const PretrainedParam& param) const {
    return tensor(param).bytes * std::ssize(param.tensors);
  }

  // Read rows of a param from `first_row` on until `to` is full, as floats or as stored. The rows
  // of a vector are its elements. The size of `to` must be a number of whole rows that exist, or of
  // whole blocks of a vector. ReadBytes requires `in_file.added == 0`. Return kIo if reading fails.
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
