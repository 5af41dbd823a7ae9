#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/composites.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

using Sizes = std::map<char, int64_t>;

const Sizes kSizes = {{'a', 2}, {'b', 3}, {'c', 4}, {'d', 5}, {'e', 1}};

Shape ShapeOf(std::string_view labels) {
  Shape shape;
  for (const char label : labels) shape.push_back(kSizes.at(label));
  return shape;
}

// Where `labels` stand at a setting of all letters, row-major.
size_t At(std::string_view labels, const Sizes& setting) {
  int64_t at = 0;
  for (const char label : labels) {
    at = at * kSizes.at(label) + setting.at(label);
  }
  return static_cast<size_t>(at);
}

// The definition: over all settings of all letters, the product of the operands'
// elements is added to the result's.
std::vector<double> ByDefinition(const std::vector<std::string>& labels,
                                 const std::string& result,
                                 const Tensors& leaves) {
  std::vector<double> sums(static_cast<size_t>(ShapeOf(result).num_elements()));
  std::string letters;
  for (const std::string& of : labels) {
    for (const char label : of) {
      if (letters.find(label) == std::string::npos) letters += label;
    }
  }
  const int64_t settings = ShapeOf(letters).num_elements();
  for (int64_t n = 0; n < settings; ++n) {
    Sizes setting;
    int64_t rest = n;
    for (const char label : letters) {
      setting[label] = rest % kSizes.at(label);
      rest /= kSizes.at(label);
    }
    double product = 1;
    for (size_t i = 0; i < labels.size(); ++i) {
      product *= leaves.at("x" + std::to_string(i))[At(labels[i], setting)];
    }
    sums[At(result, setting)] += product;
  }
  return sums;
}

void CheckDefinition(const std::vector<std::string>& labels,
                     const std::string& result) {
  GraphBuilder g("einsum");
  std::vector<Value> operands;
  std::string equation;
  Tensors leaves;
  for (size_t i = 0; i < labels.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    const Shape shape = ShapeOf(labels[i]);
    operands.push_back(g.Input(name, DType::kF64, shape));
    equation += (i > 0 ? "," : "") + labels[i];
    for (int64_t k = 0; k < shape.num_elements(); ++k) {
      leaves[name].push_back(static_cast<double>((7 * k + 3) % 11) - 5);
    }
  }
  equation += "->" + result;
  CAPTURE(equation);
  g.Output("y", Einsum(equation, operands));
  const Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  CHECK(graph->value(graph->outputs()[0].value).type.shape == ShapeOf(result));
  // Whole numbers, so whatever the order of the sums, they are exact.
  CHECK(Interpret(*graph, leaves).at("y") ==
        ByDefinition(labels, result, leaves));
}

TEST_CASE("einsum is what its definition says") {
  CheckDefinition({"ab", "bc"}, "ac");
  CheckDefinition({"ab", "bc"}, "ca");
  CheckDefinition({"ba", "cb"}, "ac");
  CheckDefinition({"a", "a"}, "");
  CheckDefinition({"a", "b"}, "ab");
  CheckDefinition({"abcd", "adcb"}, "ac");
  CheckDefinition({"bcda", "bed"}, "abce");
  CheckDefinition({"ab", "ab"}, "ab");
  CheckDefinition({"abc", "d"}, "b");
  CheckDefinition({"", "ab"}, "ba");
}

TEST_CASE("einsum takes one operand, or several") {
  CheckDefinition({"abc"}, "abc");
  CheckDefinition({"abc"}, "cab");
  CheckDefinition({"abc"}, "b");
  CheckDefinition({"abc"}, "");
  CheckDefinition({"ab", "bc", "cd"}, "ad");
  CheckDefinition({"ab", "ac", "ad"}, "bcd");
  CheckDefinition({"ab", "bc", "ca", "b"}, "b");
}

TEST_CASE("an einsum that cannot be is told with its equation") {
  const auto error = [](std::string_view equation) {
    GraphBuilder g("wrong");
    const Value a = g.Input("a", DType::kF64, {2, 3});
    const Value b = g.Input("b", DType::kF64, {4, 5});
    g.Output("y", Einsum(equation, {a, b}));
    const Result<Graph> graph = g.Finish();
    REQUIRE(!graph.ok());
    return graph.error().message;
  };
  CHECK(error("ab,bc").find("[einsum] \"ab,bc\" has no \"->\"; expected the "
                            "labels of the result after one") !=
        std::string::npos);
  CHECK(error("ab,bc->ac")
            .find("\"ab,bc->ac\" has axes \"b\" of 3 and 4; they "
                  "must be equal") != std::string::npos);
  CHECK(error("ab->ab").find("has labels for 1 operands and there are 2") !=
        std::string::npos);
  CHECK(error("abc,de->ae")
            .find("has 3 labels for operand 0, which is "
                  "f64(2, 3)") != std::string::npos);
  CHECK(error("aa,bc->abc").find("has \"a\" twice in \"aa\"") !=
        std::string::npos);
  CHECK(error("ab,cd->aa").find("has \"a\" twice in \"aa\"") !=
        std::string::npos);
  CHECK(error("ab,cd->ax").find("asks for \"x\", which no operand has") !=
        std::string::npos);
  CHECK(error("a.,cd->ac").find("has \".\"; expected a letter") !=
        std::string::npos);
}

}  // namespace
}  // namespace stowage
