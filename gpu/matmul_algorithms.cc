#include "gpu/matmul_algorithms.h"

#include <algorithm>
#include <tuple>

namespace stowage::gpu {
namespace {

constexpr ChoicesKind kMatMulKind = {
    .room = "gpu",
    .name = "products",
    .key_numbers = std::tuple_size_v<MatMulKey>,
    .choice_words = std::tuple_size_v<MatMulAlgorithm>,
    .says = "by which algorithms products are computed"};

AutotuneCache::Key MatMulKeyOf(const MatMulKey& key) {
  return {key.begin(), key.end()};
}

MatMulAlgorithm AlgorithmOf(const AutotuneCache::Choice& choice) {
  MatMulAlgorithm algorithm = {};
  std::ranges::copy(choice, algorithm.begin());
  return algorithm;
}

}  // namespace

Result<MatMulAlgorithms> MatMulAlgorithms::Open(const std::string& folder,
                                                std::string_view device,
                                                std::string_view library) {
  STOWAGE_ASSIGN_OR_RETURN(
      AutotuneCache kept,
      AutotuneCache::Open(folder, kMatMulKind, {device, library}));
  return MatMulAlgorithms(std::move(kept));
}

std::optional<MatMulAlgorithm> MatMulAlgorithms::Find(
    const MatMulKey& key) const {
  const AutotuneCache::Choice* const found = kept_.Find(MatMulKeyOf(key));
  if (found == nullptr) return std::nullopt;
  return AlgorithmOf(*found);
}

Result<MatMulAlgorithm> MatMulAlgorithms::Keep(
    const MatMulKey& key, const MatMulAlgorithm& algorithm) {
  STOWAGE_ASSIGN_OR_RETURN(
      const AutotuneCache::Choice kept,
      kept_.Keep(MatMulKeyOf(key), {algorithm.begin(), algorithm.end()}));
  return AlgorithmOf(kept);
}

}  // namespace stowage::gpu
