//! Drawing: from the model to a buffer of cells. Pure; nothing here changes the model except
//! [`settle()`], which keeps scroll positions within what there is to scroll.
//!
//! `layout` says where everything is, the files named after panes and dialogs say what is there.

mod ask;
mod bars;
mod cause;
mod dialog;
mod doc;
mod events;
mod form;
mod frame;
mod help;
mod history;
mod human;
mod launch;
pub(super) mod layout;
mod list;
mod live;
mod many;
mod paint;
mod palette;
mod picker;
mod preview;
mod receipt;
mod report;
mod screen;
mod settle;
mod stranger;
#[cfg(test)]
pub(super) mod tests;
mod title;
mod tree;
mod why;

pub(super) use dialog::overlay_text;
pub use frame::draw;
pub(super) use human::{bytes, since_start};
pub(super) use launch::menu_order;
pub(super) use list::list_lines;
pub use screen::Surface;
pub(super) use screen::links;
pub(super) use settle::settle;
pub(super) use title::outer_title;
pub(super) use tree::tree_rows;
