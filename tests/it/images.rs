//! `trueup images serve`: what controllers get, and what they do not.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::accepted;
use crate::fixture::{Fixture, wait_until};
use crate::serve::{Answer, Service};

/// The SHA-256 of `new`, and of `old`.
const NEW: &str = "11507a0e2f5e69d5dfa40a62a1bd7b6ee57e6bcd85c67c9b8431b36fff21c437";
const OLD: &str = "cba06b5736faf67e54b07b561eae94395e774c517a7d910a54369e1263ccfbd4";

/// A site of controllers, and a folder with the image of one machine.
fn site() -> (Fixture, PathBuf) {
    let fixture = accepted::example("redfish");
    let folder = fixture.checkout.outside().join("images");
    std::fs::create_dir_all(folder.join("iso")).unwrap();
    std::fs::write(folder.join("iso/control001.iso"), "0123456789").unwrap();
    fixture.checkout.commit("The site");
    (fixture, folder)
}

fn start(fixture: &Fixture, folder: &std::path::Path) -> Service {
    let folder = folder.to_str().unwrap();
    Service::spawn(&mut fixture.command(&["images", "serve", folder, "--listen", "127.0.0.1:0"]))
}

fn firmware(fixture: &Fixture, sha256: &str) {
    let text = format!(
        "schema: trueup/Hardware/v1\nmetadata: {{name: all}}\ndata: {{mode: report, firmware: {{bios: {{version: '2', \
         image: {{url: 'https://images.example.org/fw/bios%202.bin', sha256: {sha256}, size: 3}}}}}}}}\n"
    );
    fixture.checkout.write("hardware.yaml", text);
    fixture.checkout.commit("Another BIOS");
}

fn ranged(service: &Service, path: &str, range: &str) -> Answer {
    service.request("GET", path, &[("Range", range)], "")
}

#[test]
fn a_folder_is_served_in_ranges_and_nothing_outside_of_it() {
    let (fixture, folder) = site();
    let secret = fixture.checkout.outside().join("secret");
    std::fs::write(&secret, "s3cret").unwrap();
    std::os::unix::fs::symlink(&secret, folder.join("iso/compute001.iso")).unwrap();
    std::os::unix::fs::symlink("control001.iso", folder.join("iso/compute002.iso")).unwrap();
    std::fs::write(folder.join("iso/unnamed.iso"), "s3cret").unwrap();
    let service = start(&fixture, &folder);
    let path = "/iso/control001.iso";
    let whole = service.get(path);
    assert_eq!((whole.code, &*whole.body), (200, "0123456789"));
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));
    let part = ranged(&service, path, "bytes=2-4");
    assert_eq!((part.code, &*part.body), (206, "234"));
    assert_eq!(part.header("content-range"), Some("bytes 2-4/10"));
    let rest = ranged(&service, path, "bytes=7-");
    assert_eq!((rest.code, &*rest.body), (206, "789"));
    assert_eq!(ranged(&service, path, "bytes=20-30").code, 416);
    let head = service.request("HEAD", path, &[], "");
    assert_eq!(head.code, 200);
    assert_eq!(head.header("content-length"), Some("10"));
    assert_eq!(service.get("/iso/compute002.iso").body, "0123456789");
    // What is no range of it is left out of account.
    for range in [
        "bytes=-11",
        "lines=0-1",
        "BYTES=0-1",
        "bytes=0-1,4-5",
        "bytes=5-2",
    ] {
        let answer = ranged(&service, path, range);
        assert_eq!((answer.code, answer.body.len()), (200, 10), "{range}");
    }
    let headers = [("Range", "bytes=0-1"), ("If-Range", "\"other\"")];
    let answer = service.request("GET", path, &headers, "");
    assert_eq!((answer.code, answer.body.len()), (200, 10));
    let last = ranged(&service, path, "bytes=-3");
    assert_eq!((last.code, &*last.body), (206, "789"));
    for path in [
        "/iso/none.iso",
        "/iso",
        "/iso/",
        "/",
        "/../secret",
        "/iso/../../secret",
        "/%2e%2e/secret",
        "/iso/..%2f..%2fsecret",
        "/iso/compute001.iso",
        "/iso/unnamed.iso",
        "/.git/config",
    ] {
        let answer = service.get(path);
        assert_eq!(answer.code, 404, "{path}: {answer:?}");
        assert!(!answer.body.contains("s3cret"), "{path}");
    }
    for method in ["POST", "PUT", "DELETE"] {
        assert_eq!(service.request(method, path, &[], "").code, 405, "{method}");
    }
    let log = service.log();
    let told = "127.0.0.1 fetches iso/control001.iso";
    assert_eq!(log.matches(told).count(), 1, "{log}");
    assert!(log.contains("9 images of the documents, 2 in "), "{log}");
    assert!(
        log.contains("/iso/compute003.iso is not here, for 1 node, such as compute003"),
        "{log}"
    );
    let outside = "warning: iso/compute001.iso leads out of the folder";
    assert!(log.contains(outside), "{log}");
    assert!(log.contains("answers 10.60.0.0/22 and loopback"), "{log}");
}

#[test]
fn a_file_that_is_another_than_the_documents_name_is_not_given_out() {
    let (fixture, folder) = site();
    firmware(&fixture, NEW);
    let file = folder.join("fw/bios 2.bin");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "old").unwrap();
    let service = start(&fixture, &folder);
    let says = format!("its SHA-256 is {OLD}, and not {NEW}");
    assert!(service.log().contains(&says), "{}", service.log());
    let path = "/fw/bios%202.bin";
    let answer = service.get(path);
    assert_eq!(answer.code, 409, "{answer:?}");
    assert!(answer.body.contains(&says), "{answer:?}");
    assert_eq!(ranged(&service, path, "bytes=0-0").code, 409);
    std::fs::write(&file, "longer").unwrap();
    let answer = service.get(path);
    assert!(
        answer.body.contains("it has 6 bytes, and not 3"),
        "{answer:?}"
    );
    std::fs::write(&file, "new").unwrap();
    let answer = service.get(path);
    assert_eq!((answer.code, &*answer.body), (200, "new"));
    // Another one of the same length and time is another one.
    let time = std::fs::metadata(&file).unwrap().modified().unwrap();
    let other = folder.join("fw/other");
    std::fs::write(&other, "old").unwrap();
    let opened = std::fs::File::options().write(true).open(&other).unwrap();
    opened.set_modified(time).unwrap();
    std::fs::rename(&other, &file).unwrap();
    assert_eq!(service.get(path).code, 409);
    std::fs::write(&file, "new").unwrap();
    assert_eq!(service.get(path).code, 200);
    // The documents that are committed meanwhile count.
    firmware(&fixture, OLD);
    wait_until("the new documents do not count", || {
        service.get(path).code == 409
    });
    // Those with errors do not.
    fixture
        .checkout
        .write("hardware.yaml", "schema: trueup/Hardware/v1\n");
    fixture.checkout.commit("Broken");
    std::thread::sleep(std::time::Duration::from_millis(2100));
    assert_eq!(service.get(path).code, 409);
}

#[test]
fn a_file_that_is_changed_while_it_is_sent_does_not_arrive_whole() {
    use std::io::{Read as _, Write as _};
    let (fixture, folder) = site();
    let file = folder.join("iso/control001.iso");
    let length = 32 << 20;
    std::fs::write(&file, vec![1; length]).unwrap();
    let service = start(&fixture, &folder);
    let mut stream = std::net::TcpStream::connect(service.address()).unwrap();
    let request = "GET /iso/control001.iso HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    // The rest does not fit into the buffers of the connection.
    stream.read_exact(&mut [0; 1024]).unwrap();
    let mut opened = std::fs::File::options().write(true).open(&file).unwrap();
    opened.write_all(&[2; 10]).unwrap();
    drop(opened);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < length - 1024, "{} bytes arrived", rest.len());
}

#[test]
fn the_service_of_a_site_serves_images_beside_its_interfaces() {
    let (fixture, folder) = site();
    let text = fixture.read("backends.yaml");
    let moved = text.replace("images.example.org/iso/", "images.example.org/images/iso/");
    fixture.checkout.write("backends.yaml", moved);
    fixture.checkout.commit("Images of the service");
    let config = fixture.checkout.outside().join("serve.yaml");
    let settings = format!(
        "images: {{folder: {}}}\nlimits: {{requests_per_second: 1}}\n",
        folder.display()
    );
    std::fs::write(&config, settings).unwrap();
    let arguments = ["--config", config.to_str().unwrap()];
    let service = Service::start(&fixture, &arguments);
    let path = "/images/iso/control001.iso";
    for first in 0..9 {
        let part = ranged(&service, path, &format!("bytes={first}-{first}"));
        assert_eq!((part.code, part.body), (206, first.to_string()));
    }
    assert_eq!(service.get("/images/").code, 404);
    assert_eq!(service.get("/iso/control001.iso").code, 404);
    let log = service.log();
    assert!(log.contains("1 in "), "{log}");
}

#[test]
fn what_cannot_be_served_is_refused_before_anything_listens() {
    let (fixture, folder) = site();
    let folder = folder.to_str().unwrap();
    let listen = ["--listen", "127.0.0.1:0"];
    let nowhere = fixture.run(&[&["images", "serve", "none"][..], &listen].concat());
    nowhere.with(64).saying("the folder of images `");
    fixture
        .run(&["images", "serve", folder])
        .with(64)
        .saying("--listen");
    for (more, says) in [
        (["--allow", "10.0.0.0/33"], "--allow"),
        (["--key", "key.pem"], "--certificate"),
    ] {
        let arguments = [&["images", "serve", folder][..], &listen, &more].concat();
        fixture.run(&arguments).with(64).saying(says);
    }
    let tls = ["--certificate", "none.pem", "--key", "none.key"];
    let arguments = [&["images", "serve", folder][..], &listen, &tls].concat();
    fixture.run(&arguments).with(1).saying("none.pem");
    fixture
        .checkout
        .write("hardware.yaml", "schema: trueup/Hardware/v1\n");
    fixture.checkout.commit("Broken");
    let arguments = [&["images", "serve", folder][..], &listen].concat();
    fixture.run(&arguments).with(1);
}

#[test]
fn a_link_that_changes_while_it_is_asked_for_gives_nothing_else_out() {
    let (fixture, folder) = site();
    let secret = fixture.checkout.outside().join("secret");
    std::fs::write(&secret, "s3cret").unwrap();
    let path = folder.join("iso/compute001.iso");
    let service = start(&fixture, &folder);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let next = folder.join("next");
            let targets = [folder.join("iso/control001.iso"), secret.clone()];
            for target in targets.iter().cycle() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                std::os::unix::fs::symlink(target, &next).unwrap();
                std::fs::rename(&next, &path).unwrap();
            }
        });
        let answers: Vec<Answer> = (0..200)
            .map(|_| service.get("/iso/compute001.iso"))
            .collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(answers.iter().all(|each| !each.body.contains("s3cret")));
        // It was given out, and it was refused.
        for code in [200, 404] {
            assert!(answers.iter().any(|each| each.code == code), "{code}");
        }
    });
}
