#ifndef STOWAGE_NN_MODEL_DESCRIPTION_H_
#define STOWAGE_NN_MODEL_DESCRIPTION_H_

// Checks that the readers of a published model's description share, one for GGUF's metadata
// and one for config.json (nn/published_model.h).

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/strings.h"
#include "formats/json.h"
#include "formats/weights_file.h"
#include "nn/llama.h"
#include "nn/llama_families.h"
#include "nn/published_model.h"

namespace stowage {

// What descriptions of a model have in common, in whatever form a file has them.
class Description {
 protected:
  // Sizes above this are no model's; their products stay within 63 bits.
  static constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();

  explicit Description(const WeightsFile& file) : file_(file) {}

  // A value, or `otherwise` where there is none.
  template <typename T>
  static Result<T> ValueOr(Result<T> value, T otherwise) {
    if (!value.ok() && value.error().code == ErrorCode::kNotFound) {
      return otherwise;
    }
    return value;
  }
  // "a, b and c"
  static std::string Listed(std::span<const std::string> names) {
    std::string text;
    for (size_t i = 0; i < names.size(); ++i) {
      const bool is_last = i > 0 && i + 1 == names.size();
      text += StrCat(i == 0 ? "" : is_last ? " and " : ", ", names[i]);
    }
    return text;
  }

  Error Unsupported(std::string_view what) const {
    return file_.Fail(StrCat("has ", what), ErrorCode::kUnsupported);
  }
  // Says which file an error of a value is of.
  Error In(const Error& error) const {
    return file_.Fail(StrCat("cannot be taken: ", error.message));
  }
  Result<int64_t> CheckSize(std::string_view name, Result<int64_t> size) const {
    if (!size.ok()) return In(size.error());
    if (*size >= 1 && *size <= kMaxSize) return *size;
    return file_.Fail(StrCat("has a ", Quoted(name), " of ", *size,
                             "; expected 1 to ", kMaxSize));
  }
  // Each layer has tensors; so no more are built than the file can fill.
  Status CheckLayers(int64_t layers) const {
    const int64_t tensors = std::ssize(file_.tensors());
    if (layers <= tensors) return {};
    return file_.Fail(StrCat("would have ", layers, " layers, and has ",
                             tensors, " tensors"));
  }
  Status CheckRopeBase(double base) const {
    return CheckPositive("base of rope", base);
  }
  Status CheckPositive(std::string_view what, double number) const {
    if (std::isfinite(number) && number > 0) return {};
    return file_.Fail(StrCat("has a ", what, " of ", number,
                             "; expected a finite number above 0"));
  }
  // So are there heads: factors of rope are computed for each of their pairs.
  Status CheckHeads(const LlamaConfig& config) const {
    int64_t most = 0;
    const WeightTensor* foreign = nullptr;
    for (const WeightTensor& tensor : file_.tensors()) {
      if (!tensor.foreign.empty()) {
        foreign = &tensor;
        continue;
      }
      most = std::max(most, tensor.shape.num_elements());
    }
    if (most == 0 && foreign != nullptr) {
      return file_.Fail(StrCat("has no tensor of a type that is read; ",
                               Quoted(foreign->name), " is ",
                               foreign->Describe()));
    }
    if (config.head_size <= most / config.heads) return {};
    return file_.Fail(
        StrCat("would have ", config.heads, " heads of ", config.head_size,
               " elements, more than its largest tensor, of ", most));
  }

  const WeightsFile& file_;
};

/// By GGUF's metadata. Precondition: the file has them.
Result<PublishedModel> DescribeByGguf(const WeightsFile& file);

/// Where config.json has rope's parameters: a path that ends in a dot. Of models whose
/// layers differ, those of layers of full attention.
std::string PathOfRope(const JsonValues& config);

/// Sets what config.json says of rope. Precondition: the file has one; the config has the
/// sizes of heads.
Status FindConfigRope(const WeightsFile& file, const LlamaFamily& family,
                      LlamaConfig* config);

/// The architectures that DescribeEncoder knows, without what stands behind all of their names,
/// "ForSequenceClassification", "Model", "ForMaskedLM" or "ForPreTraining".
std::vector<std::string> EncoderArchitectures();

/// By config.json, if the architecture is that of an encoder: with a head that classifies
/// texts, or with none, or with one that predicts tokens, which is left aside. Precondition:
/// the file has one.
std::optional<Result<PublishedModel>> DescribeEncoder(
    const WeightsFile& file, std::string_view architecture);

/// By config.json. Precondition: the file has one.
Result<PublishedModel> DescribeByConfig(const WeightsFile& file);

}  // namespace stowage

#endif  // STOWAGE_NN_MODEL_DESCRIPTION_H_
