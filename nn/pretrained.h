#ifndef STOWAGE_NN_PRETRAINED_H_
#define STOWAGE_NN_PRETRAINED_H_

// Opens a published model: builds its graphs, and finds the tensor in the file for each of its
// params. Opening checks that every param is present with its shape, and that every tensor is used,
// except for tensors that the model does not need (PretrainedModel::Open, unread). Opening reads no
// weights, with one exception. If the config declares that the head is tied to the embedding and
// the file contains a head, the two are compared. A head that differs from the embedding becomes a
// separate param, as in transformers.
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
// GPT-2's params lack the prefix "transformer." (nn/gpt.h). In GGUF files of some architectures,
// rows have another order (nn/gguf_form.h). Reading reorders whole rows, so quantized blocks are
// unchanged. Adapters and merged weights are therefore compatible with other programs.

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

/// Returns the number of rows of a param of this shape, as the functions here read it. Each element
/// of a vector is a row. In other shapes, a row is the elements along the last dimension.
int64_t RowsOf(const Shape& shape);

/// Returns a list of names for messages: "a", "b", "c", "d", "e" and 3 more. At most 5 names are
/// listed.
std::string Named(std::span<const std::string> names);

/// Options for an encoder that classifies texts.
struct ClassifierOptions {
  /// The names of the labels, in the order of the logits. If empty, the file determines the labels.
  std::vector<std::string> labels = {};
  /// Dropout rates that replace the rates in config.json.
  std::optional<double> hidden_dropout = {};
  std::optional<double> attention_dropout = {};
  std::optional<double> classifier_dropout = {};
};

/// Options for a model that embeds texts: dropout rates that replace the rates in the config.json
/// of an encoder.
struct EmbedderOptions {
  std::optional<double> hidden_dropout = {};
  std::optional<double> attention_dropout = {};
};

struct PretrainedParam {
  std::string name;
  Shape shape;
  /// Indices in WeightsFile::tensors(): the index of the param's tensor, or the index of one tensor
  /// for each expert.
  std::vector<size_t> tensors = {};
  GgufRows in_file = {};  // differences of rows in a GGUF file

  int64_t rows() const { return RowsOf(shape); }
};

class PretrainedModel {
 public:
  /// Opens a model that predicts tokens, in a GGUF file, a safetensors file or a folder
  /// (formats/weights_file.h). Tensors that the model computes itself are ignored: the frequencies
  /// of RoPE, causal masks, and a head that equals the tied embedding. Propagates errors of
  /// WeightsFile::Open and DescribeModel. Returns kUnsupported for an encoder and for a decoder
  /// without a head. Returns kInvalidArgument, with the names, if params are missing, if other
  /// tensors are unused, or if a tensor has another shape than its param or an unsupported type.
  static Result<PretrainedModel> Open(const std::string& path);

  /// Opens an encoder (nn/encoder.h) to classify texts, in a Hugging Face folder. If the model is
  /// not a ForSequenceClassification model, a new head for the labels of `options` is used
  /// (new_params). Propagates errors of WeightsFile::Open and DescribeModel, and returns
  /// kInvalidArgument as Open does. Also returns kInvalidArgument if `options` has labels other
  /// than the file's, or if the file has no labels and `options` has fewer than 2. Returns
  /// kUnsupported if the model is not an encoder.
  static Result<PretrainedModel> OpenClassifier(
      const std::string& path, const ClassifierOptions& options = {});

  /// Opens a model to embed texts (nn/contrastive.h), in a Hugging Face folder of an encoder or of
  /// a decoder of nn/llama.h. The tensors of a head are not used. Build then requires
  /// ModelOptions::embedding. Propagates errors of WeightsFile::Open and DescribeModel, and returns
  /// kInvalidArgument as Open does. Also returns kUnsupported for GPT-2, for a GGUF file and for a
  /// decoder with bidirectional attention, and kInvalidArgument if `options` has dropout rates for
  /// a decoder.
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

  /// Returns the name that `param`, a param of the model or of an adapter, has in Hugging Face's
  /// model. For a model that embeds texts, this is the model without a head, such as BertModel.
  std::string PublishedName(std::string_view param) const;

  /// Returns all params that the file contains, in the order of the graph.
  const std::vector<PretrainedParam>& params() const { return params_; }
  /// Returns the names of the params of a classifier's head that the file lacks. They keep the
  /// values of Training::Initialize.
  const std::vector<std::string>& new_params() const { return new_params_; }
  /// Returns the names of the tensors that are not used because they belong to another head of an
  /// encoder, such as a head that predicts tokens, or to any head of a model that embeds texts.
  /// Tensors that the model computes itself are not included.
  const std::vector<std::string>& unread() const { return unread_; }
  /// Returns the tensors in unread() that Hugging Face's model without a head has, such as BERT's
  /// pooler. The result is empty unless the model embeds texts.
  std::vector<const WeightTensor*> kept() const;
  /// Returns the param's first tensor. The other tensors of the param have the same type and shape.
  const WeightTensor& tensor(const PretrainedParam& param) const {
    return file_.tensors()[param.tensors.front()];
  }
  /// Returns the size of the param's tensors in the file.
  Bytes bytes(const PretrainedParam& param) const {
    return tensor(param).bytes * std::ssize(param.tensors);
  }

  // ReadFloats and ReadBytes read rows of `param`, a param of this model, from `first_row` on until
  // `to` is full, as floats or in the format of the file. Each element of a vector is a row. `to`
  // must consist of whole rows that exist, or for a vector of whole blocks. ReadBytes requires
  // `param.in_file.added == 0`. Both return kIo if reading fails.
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
