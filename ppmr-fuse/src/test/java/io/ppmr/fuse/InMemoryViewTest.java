package io.ppmr.fuse;

/** The behavioural suite on the reference view alone. */
class InMemoryViewTest extends FilesystemViewContract {
    private FilesystemDriver driver;

    @Override
    protected FilesystemDriver openDriver() {
        driver = new ViewDriver(new InMemoryView());
        return driver;
    }

    @Override
    protected void closeDriver() throws Exception {
        driver.close();
    }
}
