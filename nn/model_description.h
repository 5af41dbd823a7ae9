#ifndef STOWAGE_NN_MODEL_DESCRIPTION_H_
#define STOWAGE_NN_MODEL_DESCRIPTION_H_

// Provides base classes for the classes that read the description of a published model
// (nn/published_model.h) from GGUF metadata or from the config.json of a decoder or encoder. The
// base classes read typed values, and report errors that name the file and the value.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
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
#include "nn/published_model.h"

namespace stowage {

// Provides checks that do not depend on the format of the description.
class Description {
 protected:
  // The upper bound of sizes. Products of two sizes fit in 63 bits.
  static constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();

  explicit Description(const WeightsFile& file) : file_(file) {}

  // Returns `value`, or `otherwise` if `value` is kNotFound.
  template <typename T>
  static Result<T> ValueOr(Result<T> value, T otherwise) {
    if (!value.ok() && value.error().code == ErrorCode::kNotFound) {
      return otherwise;
    }
    return value;
  }
  // Returns "a, b and c".
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
  // Returns `error`, which is about a value, with the name of the file added.
  Error In(const Error& error) const {
    return file_.Fail(StrCat("cannot be taken: ", error.message));
  }
  Result<int64_t> CheckSize(std::string_view name, Result<int64_t> size) const {
    if (!size.ok()) return In(size.error());
    if (*size >= 1 && *size <= kMaxSize) return *size;
    return file_.Fail(StrCat("has a ", Quoted(name), " of ", *size,
                             "; expected 1 to ", kMaxSize));
  }
  // Checks that there are not more layers than tensors in the file.
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
  // Checks that all heads together do not have more elements than the largest tensor. This bounds
  // the number of rotary factors, since there is one for each pair of a head's elements. Requires
  // that the number of heads is above 0.
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

// Provides access to a config.json.
class ConfigValues : public Description {
 public:
  /// Requires that the file has a config.json.
  explicit ConfigValues(const WeightsFile& file)
      : Description(file), config_(*file.config()) {}

 protected:
  Result<int64_t> Size(std::string_view name) const {
    return CheckSize(name, config_.Int(name));
  }
  Result<int64_t> SizeOr(std::string_view name, int64_t otherwise) const {
    return CheckSize(name, ValueOr(config_.Int(name), otherwise));
  }
  Result<double> RealOr(std::string_view name, double otherwise) const {
    auto value = ValueOr(config_.Real(name), otherwise);
    if (!value.ok()) return In(value.error());
    return value;
  }
  Result<bool> BoolOr(std::string_view name, bool otherwise) const {
    auto value = ValueOr(config_.Bool(name), otherwise);
    if (!value.ok()) return In(value.error());
    return value;
  }
  // Checks that the string named `name`, or `otherwise` if it is absent, is one of `known`.
  Status OneOf(std::string_view name, std::string_view otherwise,
               std::initializer_list<std::string_view> known) const {
    const auto value = ValueOr(config_.Text(name), std::string(otherwise));
    if (!value.ok()) return In(value.error());
    if (std::ranges::find(known, *value) != known.end()) return {};
    return Unsupported(StrCat("a ", Quoted(name), " of ", Quoted(*value),
                              "; here it is ", Quoted(*known.begin())));
  }
  Status MustBe(std::string_view name, bool expected) const {
    STOWAGE_ASSIGN_OR_RETURN(const bool value, BoolOr(name, expected));
    if (value == expected) return {};
    return Unsupported(StrCat("a ", Quoted(name), " of ", value,
                              ", which no model here knows"));
  }

  const JsonValues& config_;
};

/// Returns the description of the model in a GGUF file. Requires `file.gguf()`.
Result<PublishedModel> DescribeByGguf(const WeightsFile& file);

/// Returns the path of RoPE's parameters in config.json, with a trailing dot. If RoPE differs
/// between kinds of layers, returns the path for layers with full attention.
std::string PathOfRope(const JsonValues& config);

/// Returns the names of the architectures of encoders, such as "Bert". A name in config.json also
/// has the suffix "ForSequenceClassification", "Model", "ForMaskedLM" or "ForPreTraining".
std::vector<std::string> EncoderArchitectures();

/// Returns the description of an encoder, read from config.json, or nullopt if `architecture`, a
/// name in config.json, is not the architecture of an encoder. A head that predicts tokens is
/// ignored, so the description has labels only if the model has a head that classifies texts.
/// Requires `file.config()`.
std::optional<Result<PublishedModel>> DescribeEncoder(
    const WeightsFile& file, std::string_view architecture);

}  // namespace stowage

#endif  // STOWAGE_NN_MODEL_DESCRIPTION_H_
