#include "train/sentence_transformer.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/files.h"

namespace stowage::testing {
namespace {

namespace fs = std::filesystem;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::string FolderOf(const std::vector<FileText>& files) {
  const std::string folder = NewFolder("sentence_transformer");
  for (const auto& [name, text] : files) {
    const fs::path path = fs::path(folder) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  fs::create_directories(folder);
  return folder;
}

Result<SentenceTransformer> Read(const std::vector<FileText>& files) {
  return ReadSentenceTransformer(FolderOf(files), 384);
}

std::string Modules(const std::vector<std::string>& types) {
  const std::vector<std::string> paths = {"", "1_Pooling", "2_Normalize",
                                          "3_Dense"};
  std::string text;
  for (size_t i = 0; i < types.size(); ++i) {
    text += (i == 0 ? "[" : ", ") + ("{\"idx\": " + std::to_string(i)) +
            ", \"path\": \"" + paths[i] +
            "\", \"type\": \"sentence_transformers.models." + types[i] + "\"}";
  }
  return text + "]";
}

const FileText kTwoModules = {"modules.json",
                              Modules({"Transformer", "Pooling"})};
// As versions before 6 write it.
const FileText kMean = {
    "1_Pooling/config.json",
    R"({"word_embedding_dimension": 384, "pooling_mode_cls_token": false,
        "pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": false})"};

TEST_CASE("a model without the files has no settings") {
  const auto read = Read({});
  REQUIRE_MESSAGE(read.ok(), read.error().message);
  CHECK(!read->pooling);
  CHECK(!read->max_seq);
  CHECK(read->similarity == Similarity::kCosine);
  CHECK(read->QueryPrompt().empty());
}

TEST_CASE("files of all versions are read") {
  const auto former = Read(
      {{"modules.json", Modules({"Transformer", "Pooling", "Normalize"})},
       kMean,
       {"sentence_bert_config.json",
        R"({"max_seq_length": 256, "do_lower_case": false})"},
       {"config_sentence_transformers.json",
        R"({"__version__": {"pytorch": "1.6"}, "prompts": {"passage": "p: ",
            "query": "q: "}, "default_prompt_name": null,
            "similarity_fn_name": null})"}});
  REQUIRE_MESSAGE(former.ok(), former.error().message);
  CHECK(former->pooling == Pooling::kMean);
  CHECK(former->normalizes);
  CHECK(former->max_seq == 256);
  CHECK(former->QueryPrompt() == "q: ");
  CHECK(former->DocumentPrompt() == "p: ");
  const auto newer = Read(
      {{"modules.json",
        R"([{"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
            {"path": "1_Pooling", "type": "sentence_transformers.sentence_transformer.modules.pooling.Pooling"}])"},
       {"1_Pooling/config.json",
        R"({"embedding_dimension": 384, "pooling_mode": "lasttoken",
            "include_prompt": false})"},
       {"sentence_bert_config.json",
        R"({"transformer_task": "feature-extraction", "module_output_name": "token_embeddings",
            "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}})"},
       {"config_sentence_transformers.json",
        R"({"model_type": "SentenceTransformer", "prompts": {"task": "t: "},
            "default_prompt_name": "task", "similarity_fn_name": "dot"})"}});
  REQUIRE_MESSAGE(newer.ok(), newer.error().message);
  CHECK(newer->pooling == Pooling::kLast);
  CHECK(!newer->pools_prompts);
  CHECK(!newer->normalizes);
  CHECK(newer->similarity == Similarity::kDot);
  // Neither has a prompt of its own.
  CHECK(newer->QueryPrompt() == "t: ");
  CHECK(newer->DocumentPrompt() == "t: ");
}

TEST_CASE("written files are read again") {
  const SentenceTransformer settings = {
      .pooling = Pooling::kFirst,
      .pools_prompts = false,
      .normalizes = true,
      .similarity = Similarity::kDot,
      .max_seq = 64,
      .prompts = {{"query", "q: "}, {"other", "o: "}},
      .default_prompt = "other"};
  const auto read = Read(SentenceTransformerFiles(settings, 384));
  REQUIRE_MESSAGE(read.ok(), read.error().message);
  CHECK(read->pooling == settings.pooling);
  CHECK(read->pools_prompts == settings.pools_prompts);
  CHECK(read->normalizes == settings.normalizes);
  CHECK(read->similarity == settings.similarity);
  CHECK(read->max_seq == settings.max_seq);
  CHECK(read->prompts == settings.prompts);
  CHECK(read->default_prompt == settings.default_prompt);
}

TEST_CASE("settings that change embeddings and are not known are refused") {
  const auto refused = [](const std::vector<FileText>& files,
                          std::string_view what) {
    const auto read = Read(files);
    REQUIRE(!read.ok());
    INFO(read.error().message);
    CHECK(Contains(read.error().message, what));
  };
  const auto pooling = [&](const std::string& text, std::string_view what) {
    refused({kTwoModules, {"1_Pooling/config.json", text}}, what);
  };
  const auto beside = [&](const std::string& name, const std::string& text,
                          std::string_view what) {
    refused({kTwoModules, kMean, {name, text}}, what);
  };
  refused(
      {{"modules.json", Modules({"Transformer", "Pooling", "Dense"})}, kMean},
      "has \"sentence_transformers.models.Dense\" as module 2; models of "
      "Transformer, Pooling and, as the last, Normalize are supported");
  refused({{"modules.json", Modules({"Transformer"})}},
          "has 1 modules; expected Transformer and Pooling");
  refused({kTwoModules},
          "has a Pooling in \"1_Pooling\", which has no "
          "config.json");
  refused({{"modules.json",
            R"([{"path": "0_Transformer", "type": "a.Transformer"}])"}},
          "has the Transformer in \"0_Transformer\"");
  refused({{"modules.json", R"([{"path": "", "type": "a.Transformer",
                                 "kwargs": ["task"]}])"}},
          "has \"kwargs\" of module 0");
  refused({{"modules.json", "["}}, "modules.json\" [json] the text is no JSON");
  pooling(R"({"pooling_mode_max_tokens": true})",
          "pools by max; mean, cls or lasttoken is supported");
  pooling(R"({"pooling_mode": ["cls", "mean"]})", "pools by cls and mean");
  pooling(R"({"pooling_mode": "mean", "weights": 2})",
          "has \"weights\", which is not supported");
  pooling(R"({"pooling_mode": "mean", "embedding_dimension": 768})",
          "has a \"embedding_dimension\" of 768; the model's vectors have 384 "
          "elements");
  beside("sentence_bert_config.json", R"({"do_lower_case": true})",
         "has \"do_lower_case\" true; false is supported");
  beside("sentence_bert_config.json", R"({"max_seq_length": 0})",
         "has a \"max_seq_length\" of 0; expected at least 1");
  beside("sentence_bert_config.json", R"({"query_length": 32})",
         "has \"query_length\", which is not supported");
  beside("sentence_bert_config.json", R"({"transformer_task": "fill-mask"})",
         "has \"transformer_task\" \"fill-mask\"; \"feature-extraction\" is "
         "supported");
  beside("config_sentence_transformers.json",
         R"({"similarity_fn_name": "euclidean"})",
         "has \"similarity_fn_name\" \"euclidean\"; cosine or dot is "
         "supported");
  beside("config_sentence_transformers.json",
         R"({"default_prompt_name": "query"})",
         "has the \"default_prompt_name\" \"query\", and no prompt of that "
         "name");
  beside("config_sentence_transformers.json", R"({"truncate_dim": 64})",
         "has \"truncate_dim\", which is not supported");
  beside("config_sentence_transformers.json", R"({"prompts": {"query": 1}})",
         "config_sentence_transformers.json\" ");
}

}  // namespace
}  // namespace stowage::testing
