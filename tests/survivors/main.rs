//! Who survives a stop, and who must: the built binary against process trees of every awkward shape.
//!
//! Each test keeps its own oracle. Every process of a fixture writes its pid and start tick into a
//! ledger; the tests hold pidfds of them, and of bystanders that look the same and must live.
//!
//! Faults that programs of this kind have shipped, and the tests that they are none here (those of tmux are
//! named in `src/tmux/tests.rs`):
//!
//! | nr. | fault | test |
//! |---|---|---|
//! | 1 | a clock step changes a verdict | `clock::a_clock_step_changes_no_verdict`, `house::words::no_verdict_knows_the_wall_clock` |
//! | 2 | a group is signalled after its leader was reaped | `matrix::root_gone`, `reuse`, `house::only_the_funnels_lift_the_ban_on_signals_and_children` |
//! | 3 | a delayed kill does not look again | `reuse::of_a_child_in_the_grace`, `reuse::of_a_pane_root_in_the_grace` |
//! | 4 | children born during the stop live on | `matrix::birth_on_term` |
//! | 5 | identity is checked at discovery only | `reuse`, the doc tests of `lifecycle::authority` |
//! | 6 | a record of another boot is acted on | `tethers::nobody_is_signalled_for_a_record_that_cannot_be_trusted` |
//! | 7 | grandchildren live on | `matrix::nested` |
//! | 8 | jobs in other process groups live on | `matrix::other_groups` |
//! | 9 | descendants behind setsid live on | `matrix::own_session`, `matrix::daemon` |
//! | 10 | kill-session alone leaves children | `matrix::nohup`, `tmux::somebody_elses_kill_session` |
//! | 11 | a deaf child drops out when its parent ends | `faults::a_parent_that_ends_at_once_and_a_deaf_child` |
//! | 12 | forks during the walk live on | `storms::forkers`, `storms::hoppers`, `storms::respawn_ring` |
//! | 13 | a program that signals is run | `house::words::no_program_is_run_that_signals` |
//! | 14 | records name the own group, 0, 1 or -1 | `tethers::a_record_of_ourselves_ends_nobody`, the table of `tethers`, `lifecycle::tether` |
//! | 15 | EPERM is taken for dead | `users::a_descendant_that_became_root`, `lifecycle::kill::tests::init_exists_for_everybody` |
//! | 16 | a stop of something dead fails | `faults::what_has_ended_is_stopped_twice`, `leftovers::what_was_stopped_stays_stopped` |
//! | 17 | a reused pid is signalled | `reuse`, the table of `tethers` |
//! | 18 | a sweep takes somebody else's sessions | `faults::a_sweep_takes_nobody_elses_sessions` |
//! | 19 | an error of tmux is taken for an absence | `tmux::a_server_that_is_stopped`, `tmux::a_server_whose_socket_was_deleted`, `chaos::a_tmux_on_path_that_is_broken`, `leftovers::a_socket_that_is_gone_is_no_absence` |
//! | 19 | a look or a stop brings the tmux server down | `watched`, `tmux::relay_tests` in the library |
//! | 20 | a free port is taken for proof | `faults::a_free_port_is_no_proof`, `ports::inherited_by_an_escapee` |
//! | 21 | a stop that cannot finish does not say why | `users::a_descendant_that_became_root`, `users::a_descendant_that_became_root_and_no_manager` |
//! | 30 | a grandchild that holds the terminal keeps a session from ending | `pty::host::tests::a_close_does_not_wait_for_the_end_of_the_output`, `matrix::nohup` |
//! | 31 | a master is inherited | `crash::a_master_is_inherited_by_nobody` |
//! | 32 | the screen outlives its terminal | `screen::it_ends_with_its_terminal` |
//! | 33 | a terminal is left raw | `app::tui::terminal::tests::a_panic_of_the_loop_restores_the_terminal`, `screen::a_signal_ends_it_and_restores_the_terminal`, `screen::a_suspended_screen_holds_up_no_session` |
//! | 34 | a wide character at the edge, or a tiny screen, panics | `pty::screen::tests`, among them `a_panic_costs_the_screen_and_nothing_else` |
//! | 35 | heavy output freezes program or screen | `screen::a_suspended_screen_holds_up_no_session`, `app::tui::run::tests::a_flood_of_output_delays_no_key` |
//! | 36 | the wheel scrolls something else, copied text loses spaces | `app::tui::update::tests::pointer`, `pty::screen::tests::wrapped_rows_join_without_losing_spaces`, `screen::attach` |
//! | 37 | a release counts as a press | `app::tui::update::tests::keys::only_presses_and_repeats_count` |
//! | 38 | a full disk zeroes the state | `room::a_full_disk_at_every_save`, `contract::files::a_full_disk_launches_nothing_and_harms_no_record`, `chaos::a_disk_that_refuses` |
//! | 39 | two writers lose updates | `lifecycle::store::tests::writers_lose_no_update`, `room::several_managers_write_one_record` |
//! | 40 | a name or an argument that is not UTF-8 does not parse | `lifecycle::inspect::procfs::tests::a_folder_of_files_is_a_process_table`, `contract::escapes` |
//! | 41 | a ceiling of NaN, inf, 0 or less is taken; identities are tried on ourselves | `contract::errors`, `contract::upkeep::a_ceiling_can_be_moved`, the table of `tethers`; `reuse` tries real second processes |
//! | 42 | unknown is taken for dead | `lifecycle::reap::tests::the_whole_table_keeps_the_two_promises` |
//! | 42 | a record of another namespace or a newer schema is deleted | the table of `tethers`, `clock::another_time_namespace_is_not_ours_to_judge` |
//! | 42 | a process runs before it is recorded | `failpoints`, `gate`, `kills::killed_at_any_moment_everybody_is_accounted_for` |
//! | 42 | a list ignores who lives | `crash::the_manager_of_tmux_sessions_is_killed` |
//! | 43 | orphans pile up unnamed | `faults::orphans_are_named_with_age_and_memory`, `leftovers::who_outlives_the_leader_is_an_orphan` |

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests hold their own oracles")]

mod adopted;
mod ceilings;
mod cgroups;
mod chaos;
mod clock;
mod cookbook;
mod crash;
mod earlier;
mod escapees;
#[cfg(feature = "failpoints")]
mod failpoints;
mod faults;
mod gate;
mod hidden;
mod journal;
mod kills;
mod leftovers;
mod lost_records;
mod matrix;
mod old_kernels;
mod own_group;
mod panes;
mod ports;
mod restarts;
mod reuse;
mod room;
mod started_again;
mod storms;
mod support;
mod tethers;
mod tmux;
mod users;
mod versions;
mod watched;
mod zoo;
