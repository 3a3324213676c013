//! `trueup images serve`: the images that the controllers of a site fetch.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use ipnet::IpNet;

use super::Failure;
use super::context::Context;
use super::serve::{ProcessHost, addresses, in_good_order, read, refused};
use super::value::network;
use crate::serve::{ImageFolder, ImageServer};

#[derive(Debug, Subcommand)]
pub(super) enum ImagesCommand {
    /// Serve the images of a folder to the controllers of the site
    Serve(ServeImagesCommand),
}

#[derive(Debug, Args)]
pub(super) struct ServeImagesCommand {
    /// The folder: a file of it has the path of the address that a document names
    #[arg(value_name = "DIR", value_parser = clap::builder::PathBufValueParser::new())]
    folder: PathBuf,
    /// Where requests are answered: an IP address with its port; may be repeated
    #[arg(long, value_name = "ADDRESS", required = true)]
    listen: Vec<String>,
    /// The certificate of the server, as PEM; without it, plain HTTP is spoken
    #[arg(long, value_name = "FILE", requires = "key", value_parser = clap::builder::PathBufValueParser::new())]
    certificate: Option<PathBuf>,
    /// The key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "certificate", value_parser = clap::builder::PathBufValueParser::new())]
    key: Option<PathBuf>,
    /// Addresses that may fetch images besides the controllers; may be repeated
    #[arg(long, value_name = "RANGE", value_parser = network)]
    allow: Vec<IpNet>,
}

pub(super) fn run(context: &Context, command: &ImagesCommand) -> Result<u8, Failure> {
    let ImagesCommand::Serve(command) = command;
    let addresses = addresses(&command.listen)?;
    let host = Arc::new(ProcessHost::unattended(context));
    let folder = context.directory().join(&command.folder);
    let folder = ImageFolder::open(host, &folder, "/", command.allow.clone());
    let folder = folder.map_err(|error| refused(&error))?;
    let identity = match (&command.certificate, &command.key) {
        (Some(certificate), Some(key)) => {
            let file = |path: &PathBuf| read(&context.directory().join(path));
            Some((file(certificate)?, file(key)?))
        }
        _ => None,
    };
    let printer = context.printer;
    for line in folder.survey()? {
        printer.tell(&line);
    }
    in_good_order(async |stop| {
        let server = ImageServer::bind(folder, identity, &addresses).await;
        let server = server.map_err(|error| refused(&error))?;
        for address in server.addresses() {
            printer.tell(&format!("listening on {address}"));
        }
        server.run(stop).await;
        Ok(0)
    })
}
