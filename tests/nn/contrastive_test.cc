#include "nn/contrastive.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/builder.h"
#include "ir/graph.h"
#include "nn/encoder.h"
#include "nn/gpt.h"
#include "nn/llama.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

using Numbers = std::vector<double>;

constexpr int64_t kWidth = 3;

bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Embeddings (batch, texts, kWidth) that are neither normalized nor alike.
Numbers Embeddings(int64_t batch, int64_t texts) {
  Numbers numbers;
  for (int64_t i = 0; i < batch * texts * kWidth; ++i) {
    const auto x = static_cast<double>(i);
    numbers.push_back(std::sin(1 + 2.3 * x) + 0.1 * std::cos(x));
  }
  return numbers;
}

double LossOf(int64_t batch, const EmbeddingRules& rules) {
  const int64_t texts = 1 + rules.documents;
  GraphBuilder g("contrastive");
  const Value x = g.Input("x", DType::kF64, {batch, texts, kWidth});
  g.Output("loss", InfoNce(x, rules));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return Interpret(*graph, {{"x", Embeddings(batch, texts)}})["loss"][0];
}

// The same by its definition, a pair at a time.
double Expected(int64_t batch, const EmbeddingRules& rules) {
  const int64_t texts = 1 + rules.documents;
  const Numbers x = Embeddings(batch, texts);
  const auto similarity = [&](int64_t i, int64_t a, int64_t j, int64_t b) {
    double dot = 0, left = 0, right = 0;
    for (int64_t k = 0; k < kWidth; ++k) {
      const double p = x[static_cast<size_t>((i * texts + a) * kWidth + k)];
      const double q = x[static_cast<size_t>((j * texts + b) * kWidth + k)];
      dot += p * q;
      left += p * p;
      right += q * q;
    }
    const bool is_cosine = rules.similarity == Similarity::kCosine;
    return rules.scale * (is_cosine ? dot / std::sqrt(left * right) : dot);
  };
  double loss = 0;
  for (int64_t i = 0; i < batch; ++i) {
    double documents = 0, queries = 0;
    for (int64_t j = 0; j < batch; ++j) {
      queries += std::exp(similarity(j, 0, i, 1));
      for (int64_t b = 1; b < texts; ++b) {
        documents += std::exp(similarity(i, 0, j, b));
      }
    }
    const double own = similarity(i, 0, i, 1);
    const double finding = std::log(documents) - own;
    const double reverse = std::log(queries) - own;
    loss += rules.symmetric ? (finding + reverse) / 2 : finding;
  }
  return loss / static_cast<double>(batch);
}

TEST_CASE("the loss finds a query's document among all of the batch") {
  for (const EmbeddingRules& rules :
       {EmbeddingRules{.scale = 3}, EmbeddingRules{.scale = 2, .documents = 3},
        EmbeddingRules{.similarity = Similarity::kDot, .scale = 0.5},
        EmbeddingRules{.scale = 4, .symmetric = true},
        EmbeddingRules{.scale = 4, .symmetric = true, .documents = 2}}) {
    CAPTURE(rules.documents);
    CAPTURE(rules.symmetric);
    for (const int64_t batch : {1, 2, 5}) {
      CAPTURE(batch);
      const double expected = Expected(batch, rules);
      CHECK(LossOf(batch, rules) == doctest::Approx(expected).epsilon(1e-12));
    }
  }
  // More rows of scores than are computed at a time.
  CHECK(LossOf(700, {.symmetric = true}) ==
        doctest::Approx(Expected(700, {.symmetric = true})).epsilon(1e-12));
}

TEST_CASE("embeddings are pooled over the tokens of a text, not its padding") {
  const auto pooled = [](Pooling pooling, double padding) {
    GraphBuilder g("pooling");
    const Value x = g.Input("x", DType::kF64, {2, 3, 2});
    g.Output("y", PoolTokens(x, g.Input("lengths", DType::kI32, {2}), pooling));
    const Result<Graph> graph = g.Finish();
    REQUIRE_MESSAGE(graph.ok(), graph.error().message);
    return Interpret(*graph, {{"x",
                               {1, 2, 3, 6, 11, 1,  //
                                5, 7, padding, padding, padding, padding}},
                              {"lengths", {3, 1}}})["y"];
  };
  for (const double padding : {0.0, 99.0}) {
    CHECK(pooled(Pooling::kMean, padding) == Numbers{5, 3, 5, 7});
    CHECK(pooled(Pooling::kFirst, padding) == Numbers{1, 2, 5, 7});
    CHECK(pooled(Pooling::kLast, padding) == Numbers{11, 1, 5, 7});
  }
}

TEST_CASE("an embedding of zeros stays zero when it is normalized") {
  GraphBuilder g("normalized");
  g.Output("y", Normalized(g.Input("x", DType::kF64, {2, 2})));
  const Result<Graph> graph = g.Finish();
  REQUIRE(graph.ok());
  const Numbers y = Interpret(*graph, {{"x", {0, 0, 3, -4}}})["y"];
  CHECK(y == Numbers{0, 0, 0.6, -0.8});
}

TEST_CASE("poolings have the names of sentence-transformers") {
  for (const auto& [pooling, name] :
       {std::pair(Pooling::kMean, "mean"), std::pair(Pooling::kFirst, "cls"),
        std::pair(Pooling::kLast, "lasttoken")}) {
    CHECK(PoolingName(pooling) == name);
    CHECK(FindPooling(name) == pooling);
  }
  CHECK(!FindPooling("max"));
}

TEST_CASE("rules without a loss are refused") {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const double scale : {0.0, -1.0, kInf, 1e39}) {
    const Status status = CheckEmbedding({.scale = scale});
    REQUIRE(!status.ok());
    CHECK(Contains(status.error().message, "scale of similarities is"));
  }
  CHECK(CheckEmbedding({.documents = 0}).error().message ==
        "[embedding] a query has 0 documents; expected at least its own");
  CHECK(CheckEmbedding({}).ok());
}

TEST_CASE("models embed texts, or say that they do not") {
  const auto message = [](const Result<Graph>& graph) {
    return graph.ok() ? std::string() : graph.error().message;
  };
  const ModelOptions options = {
      .batch = 2, .seq = 4, .embedding = EmbeddingRules{.documents = 2}};
  const EncoderConfig encoder = {.name = "bert",
                                 .names = BertNames(),
                                 .heads = 2,
                                 .width = 8,
                                 .hidden = 8,
                                 .vocabulary = 9,
                                 .max_seq = 6,
                                 .types = 2};
  const auto embedded = BuildEncoder(encoder, ModelPurpose::kEvaluate, options);
  REQUIRE_MESSAGE(embedded.ok(), embedded.error().message);
  CHECK(embedded->value(*embedded->Find("embeddings")).type.shape ==
        Shape{2, 3, 8});
  CHECK(!embedded->Find("token_types"));
  EncoderConfig labeled = encoder;
  labeled.labels = {"a", "b"};
  CHECK(Contains(message(BuildEncoder(labeled, ModelPurpose::kTrain, options)),
                 "has 2 labels, and an embedding is given"));
  const LlamaConfig llama = {.name = "tiny",
                             .heads = 2,
                             .width = 8,
                             .hidden = 8,
                             .vocabulary = 9,
                             .max_seq = 6};
  const auto decoder = BuildLlama(llama, ModelPurpose::kTrain, options);
  REQUIRE_MESSAGE(decoder.ok(), decoder.error().message);
  CHECK(!decoder->Find("lm_head.weight"));
  ModelOptions packed = options;
  packed.packed = true;
  CHECK(Contains(message(BuildLlama(llama, ModelPurpose::kTrain, packed)),
                 "packed is given beside an embedding"));
  CHECK(
      Contains(message(BuildGpt({.name = "gpt", .vocabulary = 9, .max_seq = 6},
                                ModelPurpose::kTrain, options)),
               "gpt embeds no texts"));
}

}  // namespace
}  // namespace stowage
