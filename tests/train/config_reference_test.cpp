// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tephra/train/config.h"

namespace tephra {
namespace {

TEST(ConfigReference, IsTheOneInTheDocs) {
  EXPECT_EQ(read_file(TEPHRA_SOURCE_DIR "/docs/config.md"), config_reference())
      << "run: tephra train --config-reference > docs/config.md";
}

TEST(ConfigReference, CoversTheConfigsThatWeShip) {
  for (const char* name : {"quickstart", "tiny", "60m", "100m-active", "350m-active",
                           "zaya1-8b-base", "zaya1-8b-midtrain-32k", "zaya1-8b-one-gpu"}) {
    RunConfig config;
    ConfigFile::read(format("{}/configs/{}.toml", TEPHRA_SOURCE_DIR, name)).load(config);
    EXPECT_EQ(config.name, name);
    const Json model = model_config(config.model, 512);
    EXPECT_GT(model.find("hidden_size")->integer(), 0) << name;
  }
}

}  // namespace
}  // namespace tephra
