#include "nn/published_model.h"

#include "formats/weights_file.h"
#include "nn/model_description.h"

namespace stowage {

Result<PublishedModel> DescribeModel(const WeightsFile& file) {
  if (file.gguf() != nullptr) return DescribeByGguf(file);
  if (file.config() != nullptr) return DescribeByConfig(file);
  return file.Fail(
      "has no config.json beside it, which says what model it is of; put it "
      "there");
}

}  // namespace stowage
