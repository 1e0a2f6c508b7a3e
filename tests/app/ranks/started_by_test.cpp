// Environment variables that tell a rank its place, as each launcher sets them.
#include "app/ranks/started_by.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "engine/core/error.h"

namespace ft {
namespace {

class StartedBy : public testing::Test {
 protected:
  ~StartedBy() override { clear(); }
  void clear() {
    for (const auto& [name, value] : set_) unsetenv(name.c_str());
  }
  std::optional<Started> with(const std::map<std::string, std::string>& variables) {
    clear();
    set_ = variables;
    for (const auto& [name, value] : set_) setenv(name.c_str(), value.c_str(), 1);
    return started_by();
  }
  std::string mistake(const std::map<std::string, std::string>& variables) {
    try {
      with(variables);
    } catch (const UserError& e) {
      EXPECT_EQ(e.code, Exit::config);
      return e.what();
    }
    return "no mistake";
  }
  std::map<std::string, std::string> set_;
};

TEST_F(StartedBy, NoLauncher) {
  EXPECT_FALSE(with({}));
  // a batch script of SLURM, which is not a rank
  EXPECT_FALSE(with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "7"}}));
}

TEST_F(StartedBy, Torchrun) {
  const auto s = with({{"RANK", "5"},
                       {"WORLD_SIZE", "8"},
                       {"LOCAL_RANK", "1"},
                       {"LOCAL_WORLD_SIZE", "4"},
                       {"MASTER_ADDR", "head"},
                       {"TORCHELASTIC_RUN_ID", "abc"}});
  ASSERT_TRUE(s);
  EXPECT_EQ(s->rank, 5);
  EXPECT_EQ(s->size, 8);
  EXPECT_EQ(s->local_rank, 1);
  EXPECT_EQ(s->local_size, 4);
  EXPECT_EQ(s->master, "head");
  EXPECT_EQ(s->job, "abc");
}

TEST_F(StartedBy, Srun) {
  const std::map<std::string, std::string> all = {{"SLURM_PROCID", "5"},
                                                  {"SLURM_STEP_NUM_TASKS", "7"},
                                                  {"SLURM_LOCALID", "1"},
                                                  {"SLURM_NODEID", "2"},
                                                  {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
                                                  {"SLURM_STEP_NODELIST", "n[08-10,12]"},
                                                  {"SLURM_JOB_ID", "77"},
                                                  {"SLURM_STEP_ID", "3"}};
  const auto s = with(all);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->rank, 5);
  EXPECT_EQ(s->size, 7);
  EXPECT_EQ(s->local_rank, 1);
  EXPECT_EQ(s->local_size, 2);
  EXPECT_EQ(s->master, "n08");
  EXPECT_EQ(s->job, "77.3");
  auto given = all;
  given["MASTER_ADDR"] = "elsewhere";
  EXPECT_EQ(with(given)->master, "elsewhere");
}

// Some launchers show each rank only its own GPU, which is then the first. torchrun and ft launch show every
// rank all GPUs.
TEST_F(StartedBy, TheGpuIsTheVisibleOne) {
  const auto gpu = [&](const char* shown, bool torchrun) {
    std::map<std::string, std::string> all = {{"OMPI_COMM_WORLD_RANK", "3"},
                                              {"OMPI_COMM_WORLD_SIZE", "4"},
                                              {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                              {"CUDA_VISIBLE_DEVICES", shown}};
    if (torchrun)
      all.merge(std::map<std::string, std::string>{
          {"RANK", "3"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "3"}, {"LOCAL_WORLD_SIZE", "4"}});
    return with(all)->gpu;
  };
  EXPECT_EQ(gpu("", false), 3);
  EXPECT_EQ(gpu("0,1,2,3", false), 3);
  EXPECT_EQ(gpu("2", false), 0);
  EXPECT_EQ(gpu("GPU-8932f937", false), 0);
  EXPECT_EQ(gpu("2", true), 3);
}

TEST_F(StartedBy, OpenMpiAndMpich) {
  auto s = with({{"OMPI_COMM_WORLD_RANK", "3"},
                 {"OMPI_COMM_WORLD_SIZE", "4"},
                 {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                 {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  ASSERT_TRUE(s);
  EXPECT_EQ(s->by, "mpirun");
  EXPECT_EQ(s->rank, 3);
  EXPECT_EQ(s->local_size, 2);
  s = with({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});
  ASSERT_TRUE(s);
  EXPECT_EQ(s->by, "mpiexec");
  EXPECT_EQ(s->rank, 1);
}

TEST_F(StartedBy, RefusesContradictoryVariables) {
  EXPECT_EQ(mistake({{"RANK", "1"}}), "RANK is in the environment without WORLD_SIZE");
  EXPECT_EQ(mistake({{"WORLD_SIZE", "2"}}), "WORLD_SIZE is in the environment without RANK");
  EXPECT_EQ(mistake({{"RANK", "x"}, {"WORLD_SIZE", "2"}}),
            "RANK in the environment is \"x\"; it must be an integer from 0 to 65536");
  EXPECT_EQ(mistake({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
            "RANK 2 of WORLD_SIZE 2, rank 2 of 2 on this machine: there is no such rank");
  EXPECT_EQ(mistake({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}}),
            "SLURM_PROCID 0 of SLURM_STEP_NUM_TASKS 2, rank 0 of 0 on this machine: there is no such rank");
}

TEST(Slurm, NodesAndTasks) {
  EXPECT_EQ(first_host("one"), "one");
  EXPECT_EQ(first_host("one,two"), "one");
  EXPECT_EQ(first_host("node[007-9,12],login"), "node007");
  EXPECT_EQ(first_host("login,node[1-2]"), "login");
  EXPECT_EQ(first_host("r[1-2]-ib"), "r1-ib");
  EXPECT_EQ(first_host("r[3"), "r3");
  EXPECT_EQ(first_host(""), "");
  EXPECT_EQ(tasks_on_node("4", 0), 4);
  EXPECT_EQ(tasks_on_node("2(x3),1", 2), 2);
  EXPECT_EQ(tasks_on_node("2(x3),1", 3), 1);
  for (const char* wrong : {"", "x", "2(x", "2(x3", "0", "2(x3),", "2;2"})
    EXPECT_EQ(tasks_on_node(wrong, 5), 0) << wrong;
}

}  // namespace
}  // namespace ft
