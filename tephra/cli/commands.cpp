// SPDX-License-Identifier: Apache-2.0
// The table of commands: one row each, declared in cmd_<name>.cpp.
#include "tephra/cli/command.h"

namespace tephra {

Command bench_attention_command();
Command bench_memory_command();
Command bench_data_command();
Command bench_decode_command();
Command bench_ops_command();
Command bench_optimizer_command();
Command bench_prefill_command();
Command bench_serve_command();
Command bench_retrieve_command();
Command bench_tokenizer_command();
Command bench_train_command();
Command chat_command();
Command checkpoint_export_command();
Command checkpoint_import_command();
Command checkpoint_inspect_command();
Command checkpoint_quantize_command();
Command checkpoint_random_command();
Command checkpoint_verify_command();
Command data_classify_command();
Command data_classify_train_command();
Command data_decontaminate_command();
Command data_dedup_command();
Command data_environments_command();
Command data_filter_command();
Command data_mix_command();
Command data_run_command();
Command data_stats_command();
Command data_tokenize_command();
Command doctor_command();
Command eval_command();
Command generate_command();
Command memory_add_command();
Command memory_check_command();
Command memory_query_command();
Command memory_tool_command();
Command pull_command();
Command report_command();
Command rsa_command();
Command serve_command();
Command retrieve_index_command();
Command retrieve_query_command();
Command tokenizer_check_command();
Command tokenizer_decode_command();
Command tokenizer_encode_command();
Command tokenizer_train_command();
Command train_command();
Command verify_command();

namespace {

Command grouped(const char* group, Command command) {
  command.group = group;
  return command;
}

}  // namespace

std::vector<Command> all_commands() {
  return {
      grouped("Training", train_command()),
      grouped("Training", report_command()),
      grouped("Models", generate_command()),
      grouped("Models", chat_command()),
      grouped("Models", serve_command()),
      grouped("Models", pull_command()),
      grouped("Models", eval_command()),
      grouped("Models", rsa_command()),
      grouped("Models", verify_command()),
      grouped("Models", checkpoint_inspect_command()),
      grouped("Models", checkpoint_verify_command()),
      grouped("Models", checkpoint_import_command()),
      grouped("Models", checkpoint_export_command()),
      grouped("Models", checkpoint_quantize_command()),
      grouped("Models", checkpoint_random_command()),
      grouped("Data", data_run_command()),
      grouped("Data", data_filter_command()),
      grouped("Data", data_dedup_command()),
      grouped("Data", data_classify_command()),
      grouped("Data", data_classify_train_command()),
      grouped("Data", data_decontaminate_command()),
      grouped("Data", data_mix_command()),
      grouped("Data", data_stats_command()),
      grouped("Data", data_tokenize_command()),
      grouped("Data", data_environments_command()),
      grouped("Text", tokenizer_encode_command()),
      grouped("Text", tokenizer_decode_command()),
      grouped("Text", tokenizer_check_command()),
      grouped("Text", tokenizer_train_command()),
      grouped("Memory", memory_add_command()),
      grouped("Memory", memory_query_command()),
      grouped("Memory", memory_check_command()),
      grouped("Memory", memory_tool_command()),
      grouped("Retrieval", retrieve_index_command()),
      grouped("Retrieval", retrieve_query_command()),
      grouped("This machine", doctor_command()),
      grouped("This machine", bench_data_command()),
      grouped("This machine", bench_ops_command()),
      grouped("This machine", bench_attention_command()),
      grouped("This machine", bench_decode_command()),
      grouped("This machine", bench_prefill_command()),
      grouped("This machine", bench_train_command()),
      grouped("This machine", bench_optimizer_command()),
      grouped("This machine", bench_tokenizer_command()),
      grouped("This machine", bench_memory_command()),
      grouped("This machine", bench_serve_command()),
      grouped("This machine", bench_retrieve_command()),
  };
}

}  // namespace tephra
