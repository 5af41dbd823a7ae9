// Folders of encoders as others have made them: with names of TensorFlow's, heads of other
// tasks, and settings that are refused by name.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/pretrained.h"
#include "tests/support/files.h"
#include "tests/train/changed_folder.h"

namespace stowage {
namespace {

using testing::ChangedFolder;
using testing::ReadAll;

const std::string kFolder = "tests/goldens/encoders/";
const ClassifierOptions kTwoLabels = {.labels = {"bad", "good"}};

PretrainedModel Open(const std::string& folder,
                     const ClassifierOptions& options = {}) {
  auto model = PretrainedModel::OpenClassifier(folder, options);
  REQUIRE_MESSAGE(model.ok(), model.error().message);
  return *std::move(model);
}

// A copy with the names of its tensors changed, and another architecture.
std::string Renamed(
    const std::string& folder, std::string_view architecture,
    std::string_view other,
    const std::vector<std::pair<std::string, std::string>>& names) {
  const std::string copy =
      ChangedFolder(kFolder + folder, architecture, "", other);
  std::string bytes = ReadAll(copy + "/model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  std::string header = bytes.substr(sizeof(length), length);
  for (const auto& [from, to] : names) {
    REQUIRE(header.find(from) != std::string::npos);
    for (size_t at = 0; (at = header.find(from, at)) != std::string::npos;
         at += to.size()) {
      header.replace(at, from.size(), to);
    }
  }
  const uint64_t changed = header.size();
  std::string text(sizeof(changed), ' ');
  std::memcpy(text.data(), &changed, sizeof(changed));
  std::ofstream(copy + "/model.safetensors", std::ios::binary)
      << text << header << bytes.substr(sizeof(length) + length);
  return copy;
}

// The numbers of a param.
std::vector<float> Numbers(const PretrainedModel& model,
                           const std::string& name) {
  const auto param =
      std::ranges::find(model.params(), name, &PretrainedParam::name);
  REQUIRE(param != model.params().end());
  std::vector<float> numbers(static_cast<size_t>(param->shape.num_elements()));
  REQUIRE(model.ReadFloats(*param, 0, numbers).ok());
  return numbers;
}

TEST_CASE("a file with the names that TensorFlow's have is the same model") {
  const std::string folder =
      Renamed("bert-base", "BertModel", "BertForPreTraining",
              {{"\"embeddings.", "\"bert.embeddings."},
               {"\"encoder.", "\"bert.encoder."},
               {"\"pooler.", "\"bert.pooler."},
               {"LayerNorm.weight", "LayerNorm.gamma"},
               {"LayerNorm.bias", "LayerNorm.beta"}});
  const PretrainedModel theirs = Open(folder, kTwoLabels);
  const PretrainedModel ours = Open(kFolder + "bert-base", kTwoLabels);
  REQUIRE(theirs.params().size() == ours.params().size());
  for (const PretrainedParam& param : ours.params()) {
    CAPTURE(param.name);
    CHECK(Numbers(theirs, param.name) == Numbers(ours, param.name));
  }
}

TEST_CASE("heads of other tasks are not read, and are listed") {
  // Of a model that was trained to fill gaps.
  const std::string folder = Renamed(
      "roberta", "RobertaForSequenceClassification", "RobertaForMaskedLM",
      {{"\"classifier.dense.", "\"lm_head.dense."},
       {"\"classifier.out_proj.", "\"lm_head.layer_norm."}});
  const PretrainedModel model = Open(folder, kTwoLabels);
  CHECK(model.unread() ==
        std::vector<std::string>{"lm_head.dense.bias", "lm_head.dense.weight",
                                 "lm_head.layer_norm.bias",
                                 "lm_head.layer_norm.weight"});
  CHECK(model.new_params().size() == 4);
  CHECK(model.encoder()->labels == kTwoLabels.labels);
  // What no task has is an error.
  const std::string other =
      Renamed("roberta", "RobertaForSequenceClassification",
              "RobertaForMaskedLM", {{"\"classifier.", "\"something."}});
  const auto refused = PretrainedModel::OpenClassifier(other, kTwoLabels);
  REQUIRE(!refused.ok());
  CHECK(refused.error().message.find("has 4 tensors that the model does not "
                                     "know: \"something.dense.bias\", ") !=
        std::string::npos);
}

TEST_CASE("settings that are not followed are refused by name") {
  struct Row {
    std::string_view model, from, end, to, message;
  };
  const Row rows[] = {
      {"bert", "\"is_decoder\": false", "", "\"is_decoder\": true",
       "has a \"is_decoder\" of true"},
      {"bert", "\"hidden_act\": \"gelu\"", "",
       "\"position_embedding_type\": \"relative_key\"",
       "has a \"position_embedding_type\" of \"relative_key\"; here it is "
       "\"absolute\""},
      {"bert", "\"hidden_act\": \"gelu\"", "", "\"hidden_act\": \"mish\"",
       "has a \"hidden_act\" of \"mish\""},
      {"bert", "\"hidden_dropout_prob\": 0.1", "",
       "\"hidden_dropout_prob\": 1.5",
       "has a \"hidden_dropout_prob\" of 1.5; expected 0 or above, and below "
       "1"},
      {"bert", "\"use_cache\": true", "",
       "\"problem_type\": \"multi_label_classification\"",
       "has a \"problem_type\" of \"multi_label_classification\"; here it is "
       "\"single_label_classification\""},
      {"bert", "\"1\": \"LABEL_1\"", "}", "\"9\": \"LABEL_9\"\n ",
       "has one label, which is a regression"},
      {"distilbert", "\"sinusoidal_pos_embds\": false", "",
       "\"sinusoidal_pos_embds\": true",
       "has a \"sinusoidal_pos_embds\" of true"},
      {"roberta", "\"pad_token_id\": 1", "", "\"pad_token_id\": 15",
       "has a \"pad_token_id\" of 15; expected 0 to 14"},
      {"bert", "\"num_attention_heads\": 2", "", "\"num_attention_heads\": 3",
       "has 3 heads over a width of 16"}};
  for (const Row& row : rows) {
    CAPTURE(std::string(row.to));
    const auto model = PretrainedModel::OpenClassifier(ChangedFolder(
        kFolder + std::string(row.model), row.from, row.end, row.to));
    REQUIRE(!model.ok());
    CAPTURE(model.error().message);
    CHECK(model.error().message.find(row.message) != std::string::npos);
  }
}

}  // namespace
}  // namespace stowage
