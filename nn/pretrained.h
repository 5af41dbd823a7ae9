#ifndef STOWAGE_NN_PRETRAINED_H_
#define STOWAGE_NN_PRETRAINED_H_

// A published language model: its graph by our layers, and for each of its params the
// tensor of the file that holds it. Opening checks that every param is there in its
// shape and that every tensor is used; it reads no weight, but for a head beside an
// embedding that is said to be tied to it: one that differs is kept, as transformers does.
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
// Params are called as Hugging Face's models call them (nn/llama.h; GPT-2's without
// "transformer.", nn/gpt.h), whatever the file calls them, and rows stand in Hugging
// Face's order, with Hugging Face's numbers. GGUF files of some architectures have others
// (nn/gguf_form.h). Reading puts rows back one by one, which no block of numbers notices;
// so adapters and merged weights fit what others have of the same model.

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

/// Rows of a param by which it is read: elements of a vector, else of all dimensions but the
/// last.
int64_t RowsOf(const Shape& shape);

/// Names, for messages: "a", "b", "c", "d", "e" and 3 more.
std::string Named(std::span<const std::string> names);

/// The choices for an encoder that classifies texts; its files decide the rest.
struct ClassifierOptions {
  /// Names of the labels, in the order of the logits; empty: those of the file's head.
  std::vector<std::string> labels = {};
  /// In place of the rates of config.json.
  std::optional<double> hidden_dropout = {};
  std::optional<double> attention_dropout = {};
  std::optional<double> classifier_dropout = {};
};

struct PretrainedParam {
  std::string name;
  Shape shape;
  /// Of WeightsFile::tensors(): one that holds the param, or one of each expert, in order
  /// (nn/layers.h).
  std::vector<size_t> tensors = {};
  GgufRows in_file = {};  // how a GGUF file holds the rows

  int64_t rows() const { return RowsOf(shape); }
};

class PretrainedModel {
 public:
  /// Opens a language model in a GGUF file, a safetensors file or a folder
  /// (formats/weights_file.h). Errors: kUnsupported for an encoder;
  /// WeightsFile::Open's, DescribeModel's; kInvalidArgument, naming them, for params that
  /// the file lacks, tensors that no param takes, shapes that differ, types that are not
  /// read. What a file may have that the model computes itself is left alone: rope's
  /// frequencies, causal masks, a head that is equal to the embedding tied to it.
  static Result<PretrainedModel> Open(const std::string& path);

  /// Opens an encoder to classify texts (nn/encoder.h): Hugging Face's folder of a
  /// ForSequenceClassification model, or of one that has no such head yet, whose labels
  /// are then given and whose head has initial values. Errors as Open; kInvalidArgument for
  /// labels that are not the file's, and for fewer than 2 where the file has none;
  /// kUnsupported for a model that is no encoder.
  static Result<PretrainedModel> OpenClassifier(
      const std::string& path, const ClassifierOptions& options = {});

  const WeightsFile& file() const { return file_; }
  const PublishedModel& model() const { return model_; }
  int64_t vocabulary() const;
  int64_t max_seq() const;

  /// The encoder's config; null for a language model.
  const EncoderConfig* encoder() const {
    return std::get_if<EncoderConfig>(&model_.config);
  }

  /// The model's graph. Errors as BuildLlama, BuildGpt and BuildEncoder.
  Result<Graph> Build(ModelPurpose purpose, const ModelOptions& options) const;

  /// What Hugging Face's model of this family calls a param of ours, or of an adapter
  /// beside it.
  std::string PublishedName(std::string_view param) const;

  /// In the order of the graph.
  const std::vector<PretrainedParam>& params() const { return params_; }
  /// Params of a classifier's head that the file lacks, which begin with initial values.
  const std::vector<std::string>& new_params() const { return new_params_; }
  /// Tensors of an encoder's file that belong to another head than the classifier's, as the
  /// one that predicts tokens, and are not read.
  const std::vector<std::string>& unread() const { return unread_; }
  /// The first of the param's; the others have its type and shape.
  const WeightTensor& tensor(const PretrainedParam& param) const {
    return file_.tensors()[param.tensors.front()];
  }
  /// In the file, of all of the param's tensors.
  Bytes bytes(const PretrainedParam& param) const {
    return tensor(param).bytes * std::ssize(param.tensors);
  }

  // Reads rows of a param from `first_row` on, of a vector its numbers: as many as `to`
  // holds, as floats, or as they lie in the file. Preconditions: `to` holds whole rows,
  // whole blocks of a vector, that the param has; for bytes, the file's numbers are the
  // model's. Error kIo.
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

  WeightsFile file_;
  PublishedModel model_;
  std::vector<PretrainedParam> params_;
  std::vector<std::string> new_params_, unread_;
};

}  // namespace stowage

#endif  // STOWAGE_NN_PRETRAINED_H_
